// A proxy with a planted bug: it forwards a call before the intent is durable. The checker has to find that.

import { type RunCall, runProxy } from "../../../src/mcp/index.ts";

const forwardFirst =
  (keep: RunCall): RunCall =>
  async (direct) => {
    const context = { callId: direct.callId ?? "", key: "", session: "", token: 0, attempt: 1 };
    const signal = new AbortController().signal;
    const child = () => Promise.reject(new Error("none"));
    const value = await direct.tool.execute(direct.args as never, { ...context, signal, child });
    return keep({ ...direct, tool: { ...direct.tool, execute: () => value } });
  };

const [config = "", ...command] = process.argv.slice(2);
await runProxy({ command, config, by: "faulty", keep: forwardFirst });
