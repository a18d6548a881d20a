/**
 * One line about a resumed agent: what it found and what happened to it. Read from the ledger and its
 * messages.
 */

import type { Call, Message, SessionDetail, ToolCallBlock } from "../src/index.ts";
import type { AgentMessage } from "./agent.ts";

const NOT_AGAIN: Readonly<Record<string, string>> = {
  charge: "landed, not charged again",
  send_mail: "delivered, not sent again",
};

const SUBJECTS: Readonly<Record<string, string>> = {
  charge: "orderId",
  send_mail: "to",
  page: "desk",
  write_file: "file",
};

/** The subject of a call: the argument that a person would name. */
export function subjectOf({ name, args }: Pick<ToolCallBlock, "name" | "args">): string {
  const subject = SUBJECTS[name];
  return subject ? String((args as Record<string, string>)[subject]).replace(/@.*/, "") : "";
}

/** `charge 4711, 4712, 4713` */
export function callsText(message: Message): string {
  const subjects = new Map<string, string[]>();
  for (const block of callsOf(message)) {
    subjects.set(block.name, [...(subjects.get(block.name) ?? []), subjectOf(block)]);
  }
  return [...subjects].map(([name, of]) => `${name} ${of.join(", ")}`.trim()).join("; ");
}

export function textOf(message: Message): string {
  return message.blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

export function callsOf(message: Message): readonly ToolCallBlock[] {
  return message.blocks.filter((block) => block.kind === "tool_call");
}

export function recoveryText(before: SessionDetail, told: readonly AgentMessage[]): string {
  const last = before.messages.at(-1);
  if (last?.role !== "assistant") {
    return `${before.messages.length} messages on record, no answer to the last: the model is asked again`;
  }
  const asks = callsOf(last);
  if (asks.length === 0) return `“${textOf(last)}” is on record: nothing is asked or done again`;
  const calls = new Map(before.calls.map((call) => [call.callId, call]));
  if (!asks.some((block) => calls.has(block.id))) {
    return `“${textOf(last)}” is on record: the model is not asked again`;
  }
  const fates = new Map<string, string[]>();
  for (const block of asks) {
    const fate = fateOf(block, calls.get(block.id), told);
    fates.set(fate, [...(fates.get(fate) ?? []), subjectOf(block)]);
  }
  return [...fates].map(([fate, subjects]) => `${subjects.join(", ")} ${fate}`.trim()).join(" · ");
}

function fateOf(block: ToolCallBlock, call: Call | undefined, told: readonly AgentMessage[]): string {
  if (!call) return "not begun, begins now";
  if (call.settledBy === "person") return `settled by ${call.by}`;
  if (call.status === "completed") return "on record";
  const progress = told.flatMap((each) => (each.type === "progress" ? [each.progress] : []));
  const ours = progress.filter((each) => "callId" in each && each.callId === block.id);
  const verdict = ours.findLast((each) => each.type === "call.verified");
  const sent = ours.some((each) => each.type === "call.issued");
  if (verdict?.answer === "landed") return `verified: ${NOT_AGAIN[block.name] ?? "it happened"}`;
  if (verdict) return `verified: never arrived${sent ? ", sent now, same key" : ""}`;
  if (sent) return "written again: same key, same bytes";
  const waiting = ours.find((each) => each.type === "call.waiting");
  return waiting ? "cannot be verified: put before a person, not guessed" : "may have landed: being verified";
}
