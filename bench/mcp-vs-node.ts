/**
 * How long an agent waits for `holdfast mcp` at its start: from the start of the process to the answers of
 * `initialize` and of `tools/list`, against a Node that does nothing.
 */

import { askServer, handshake } from "../test/docs/first-answers.ts";
import { builtCommandLine, live } from "./command-line.ts";
import type { Measure } from "./measure.ts";
import { median, rounded } from "./statistics.ts";

const ROUNDS = 15;

export const mcpVsNode: Measure = {
  name: "mcpVsNode",
  what: "ms until holdfast mcp, cold, has answered tools/list, beyond node -e 0",
  bar: 250,
  direction: "at most",
  async run(scratch) {
    const cli = await builtCommandLine(scratch);
    const [node, greeted, listed]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < ROUNDS; round++) {
      const before = performance.now();
      live(["-e", "0"]);
      node.push(performance.now() - before);
      const { ms } = await askServer([handshake("2025-06-18"), { method: "tools/list" }], cli);
      greeted.push(ms[0] ?? Number.NaN);
      listed.push(ms[1] ?? Number.NaN);
    }
    const numbers = {
      nodeMs: rounded(median(node)),
      initializeMs: rounded(median(greeted)),
      toolsListMs: rounded(median(listed)),
      rounds: ROUNDS,
    };
    return { value: rounded(median(listed) - median(node)), numbers };
  },
};
