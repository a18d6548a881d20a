/**
 * I9: a call leaves `unknown` only by a recorded verify, a person, a same-key retry, a declared `fail`, or
 * its late answer.
 */

import { field, historyOf, type Logged, type Rule, type Violation } from "./evidence.ts";
import { classOf, type ToolClass } from "./tool-classes.ts";

export const unknownLeft: Rule = ({ sessions }) => {
  return sessions.flatMap((session) => {
    return [...historyOf(session)].flatMap(([id, history]) => checkHistory(id, history));
  });
};

function checkHistory(id: string, history: readonly Logged[]): Violation[] {
  const found: Violation[] = [];
  const [first] = history;
  if (first?.type !== "call.issued") return found;
  const tool = classOf(field<string>(first, "tool"));
  let isUnknown = false;
  let learnt: Logged[] = [];
  for (const event of history) {
    if (event.type === "call.lost") {
      isUnknown = true;
      if (field(event, "started") === false) learnt.push(event);
    } else if (event.type === "call.verified" || event.type === "call.granted") learnt.push(event);
    else if (event.type === "call.issued" && event !== first) {
      const why = isUnknown ? noReasonToRetry(tool, first, event, learnt) : "its outcome was not unknown";
      if (why) found.push({ invariant: "I9", what: `${id} was retried at ${event.seq}: ${why}` });
      isUnknown = false;
      learnt = [];
    } else if ((event.type === "call.completed" || event.type === "call.failed") && isUnknown) {
      const why = noReasonToEnd(tool, event, learnt);
      if (why) found.push({ invariant: "I9", what: `${id} ended at ${event.seq}: ${why}` });
    }
  }
  return found;
}

function noReasonToRetry(
  tool: ToolClass,
  first: Logged,
  event: Logged,
  learnt: readonly Logged[],
): string | null {
  const isSameKey = field(event, "vendorKey") === field(first, "vendorKey");
  if (!isSameKey) return "with another key";
  const last = learnt.at(-1);
  // The log says that the attempt never began.
  if (last?.type === "call.lost") return null;
  if (last?.type === "call.granted" && field(last, "person")) return null;
  if (tool.idempotent) return null;
  const answer = last && field<string>(last, "answer");
  if (tool.verifies === "fence" && answer === "never") return null;
  if (tool.verifies === "time" && answer === "notYet" && field(last as Logged, "settled") === true)
    return null;
  return `nothing that is recorded allows it (last: ${answer ?? "nothing"})`;
}

function noReasonToEnd(tool: ToolClass, event: Logged, learnt: readonly Logged[]): string | null {
  const by = field<string>(event, "by");
  if (by === "late") return null;
  if (by === "person") return field(event, "person") ? null : "nobody is named";
  const last = learnt.at(-1);
  if (by === "verify") return last && field(last, "answer") === "landed" ? null : "no verify said so";
  if (by === "interrupted") return tool.givesUp ? null : "the tool did not declare that";
  return `by ${by}`;
}
