import type { DECISION, DECISION_TYPES } from "./note-records.ts";
import type { RecordOf } from "./record-table.ts";

export type DecisionType = (typeof DECISION_TYPES)[number];

export interface DecisionRecord extends RecordOf<typeof DECISION> {}

export interface DecisionQuery {
  /** Every word has to occur somewhere in the decision, in any order, upper or lower case. */
  readonly text?: string;
  readonly type?: DecisionType;
  /** Decisions that name this file, or a folder above it. */
  readonly file?: string;
  /** Also those that later decisions replaced. */
  readonly superseded?: boolean;
}

/** Latest first. */
export function searchDecisions(
  decisions: Iterable<DecisionRecord>,
  query: DecisionQuery = {},
): DecisionRecord[] {
  const words = (query.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...decisions].filter((each) => {
    if (each.supersededBy !== null && !query.superseded) return false;
    if (query.type && each.type !== query.type) return false;
    if (query.file !== undefined && !decisionMentions(each, query.file)) return false;
    const text = words.length === 0 ? "" : searchText(each);
    return words.every((word) => text.includes(word));
  });
  return found.reverse();
}

export function decisionMentions(decision: DecisionRecord, file: string): boolean {
  return decision.files.some((named) => file === named || file.startsWith(`${named}/`));
}

function searchText(each: DecisionRecord): string {
  const alternatives = each.alternatives.flatMap(({ option, whyNot }) => [option, whyNot]);
  const parts = [
    each.id,
    each.type,
    each.context,
    each.decision,
    each.reason,
    ...alternatives,
    ...each.files,
  ];
  return parts.join("\n").toLowerCase();
}
