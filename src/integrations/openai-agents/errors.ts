import { HoldfastError } from "../../model/errors.ts";
import { refusal } from "../refusal.ts";

/** An answer that calls such a tool would repeat its effect after a crash. */
export function outsideLedger(names: readonly string[]): HoldfastError {
  const subject = names.length === 1 ? `tool ${names[0]} was` : `tools ${names.join(", ")} were`;
  return refusal(
    "INPUT_INVALID",
    `${subject} not made with d.tool: a crash could run the same call twice. The model was not asked`,
    "Write d.tool({ ... }) instead of tool({ ... }). For tools of an MCP server, or agent.asTool(): " +
      `durable(session, { plainTools: ${JSON.stringify(names)} }).`,
    { tools: names },
  );
}

export function historyChanged(id: string, problem: string): HoldfastError {
  return new HoldfastError("STATE_STALE", `session ${id}: ${problem}; nothing was changed`, {
    hint: "Read the items again and decide again.",
    data: { session: id },
  });
}

export function historyInvalid(problem: string): HoldfastError {
  return refusal(
    "INPUT_INVALID",
    `session history: ${problem}; nothing was changed`,
    "Pass items and transactions as the types of @openai/agents declare them.",
  );
}

export function forkWithoutHistory(id: string, from: string): HoldfastError {
  return refusal(
    "INPUT_INVALID",
    `session ${id} is a fork of ${from} and lacks its conversation (d.session): nothing was asked`,
    "Copy the items that it should have, once, before d.input: d.session.addItems(" +
      `await new HoldfastSession(holdfast, ${JSON.stringify(from)}).getItems()).`,
    { session: id, from },
  );
}
