/**
 * Where the events of a goal come from, and which of them wait for a person.
 *
 * Anyone who can push a commit can write an event `by: { name: "ann", role: "human" }`. So an event that git
 * brought is labelled, and one that speaks with the authority of a person waits:
 *
 *     written here ─────────────────────────────────────────▶ counts
 *     in the clone's first look at the goal ────────────────▶ counts, labelled: a clone accepts the past
 *     pulled later, not an act of authority ────────────────▶ counts, labelled
 *     pulled later, an act of authority ──▶ waits ──confirm──▶ counts, labelled
 *
 * A waiting event is in every log and every file of events, and keeps its id. It has no effect, and what
 * builds on it does not apply. Confirmation belongs to one copy, because another copy could not tell it from
 * a forged one. Copies whose people confirmed the same events are equal.
 */

import { quoteText } from "../names.ts";
import type { Entry } from "./entries.ts";
import { RETRACTED } from "./entries.ts";
import { firstLine } from "./merge-notes.ts";
import type { Actor } from "./roles.ts";

/** The commit that brought events, and the author that git names. Anyone may write any name there. */
export interface EventSource {
  readonly commit: string;
  readonly author: string;
}

/** An event that has no effect until a person confirms it. */
export interface WaitingAct {
  readonly uid: string;
  readonly type: string;
  readonly by: Actor;
  readonly at: number;
  /** The id of the item that it changes, in this copy; null: the goal itself. */
  readonly item: string | null;
  readonly text: string | null;
  /** A retracted act is not offered, but would wait again if the retraction were taken back. */
  readonly isRetracted: boolean;
}

/** Acts that end, lift or overrule something. Others add to the goal, or are about their author's work. */
const BY_A_PERSON: ReadonlySet<string> = new Set([
  ...["goal.described", "task.accepted", "task.rejected", "task.edited", "task.dropped", "task.reopened"],
  ...["task.retried", "blocker.bypassed", "blocker.resolved", "question.answered", RETRACTED],
]);

/**
 * True if the event waits when a pull brings it. Agents of several clones work together without a person, so
 * their acts count. Two things wait whatever the role: another beginning of the goal, and who verifies work.
 */
export function needsConfirmation({ type, data }: Pick<Entry, "type" | "data">): boolean {
  if (type === "goal.created") return true;
  if (type === "goal.described" && Object.hasOwn(data["change"] as object, "verification")) return true;
  const { role } = data["by"] as unknown as Actor;
  return role === "human" && isActOfAuthority({ type, data });
}

/** True for an act that counts only if it is known who did it. */
export function isActOfAuthority({ type, data }: Pick<Entry, "type" | "data">): boolean {
  return BY_A_PERSON.has(type) || (type === "decision.made" && (data["supersedes"] ?? null) !== null);
}

const TEXT_CHARACTERS = 120;

/** The part of an event's data that a person needs to decide on it. */
export function textOfAct({ type, data }: Pick<Entry, "type" | "data">): string | null {
  if (type === "goal.described" || type === "task.edited")
    return firstLine(JSON.stringify(data["change"]), TEXT_CHARACTERS);
  const names = ["resolution", "workaround", "answer", "decision", "statement", "why"];
  const text = names.map((name) => data[name]).find((value) => typeof value === "string");
  return text === undefined ? null : firstLine(text as string, TEXT_CHARACTERS);
}

/** `blocker resolved B-001: "reviewed"`. */
export function waitingText({ type, item, text }: WaitingAct): string {
  const about = item === null ? "" : ` ${item}`;
  return `${type.replace(".", " ")}${about}${text === null ? "" : `: ${quoteText(text)}`}`;
}

export function waitingActs({ waiting }: { readonly waiting: readonly WaitingAct[] }): WaitingAct[] {
  return waiting.filter(({ isRetracted }) => !isRetracted);
}

interface Origins {
  readonly names: ReadonlyMap<string, string>;
  readonly origins: ReadonlyMap<string, number>;
  readonly sources: readonly EventSource[];
}

const SHORT_COMMIT = 10;

/**
 * The label of an event that this copy did not write: `from a pull, unsigned (commit 3f9ac1d204 by "Eve")`.
 * Null: written here, or there is no such event.
 */
export function originOf({ origins, sources }: Origins, uid: string | null | undefined): string | null {
  const index = origins.get(uid ?? "");
  if (index === undefined) return null;
  const source = sources[index];
  const label = "from a pull, unsigned";
  if (!source) return label;
  return `${label} (commit ${source.commit.slice(0, SHORT_COMMIT)} by ${quoteText(source.author)})`;
}

/** `originOf` of the event that made an item: `T-001`, `D-001`, `B-001`. */
export function originOfItem(state: Origins, id: string): string | null {
  return originOf(state, state.names.get(id));
}
