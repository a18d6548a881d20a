/**
 * Where the events of a goal come from, and which of them wait for a person.
 *
 * Anyone who can push a commit can write an event `by: { name: "ann", role: "human" }`. So an event that git
 * brought is labelled, and one that speaks with the authority of a person waits. A signature by an ssh key
 * that is allowed on this machine (`src/signing`) lets it count:
 *
 *     written here ─────────────────────────────────────────▶ counts
 *     in the clone's first look at the goal ────────────────▶ counts, labelled: a clone accepts the past
 *     pulled later, not an act of authority ────────────────▶ counts, labelled
 *     pulled later, an act of authority, signed ────────────▶ counts, labelled with the signer
 *     pulled later, an act of authority ──▶ waits ──confirm──▶ counts, labelled
 *
 * A waiting event is in every log and every file of events, and keeps its id. It has no effect, and what
 * builds on it does not apply. Confirmation belongs to one copy, because another copy could not tell it from
 * a forged one. Copies in which the same events count are equal.
 *
 * A signature is an event of its own (`event.signed`) over the uids of others, which are hashes of their
 * content and goal. So it fits no other event. It counts in whatever order it and the act arrive.
 */

import { quoteText } from "../names.ts";
import type { Entry } from "./entries.ts";
import { RETRACTED } from "./entries.ts";
import { firstLine } from "./merge-notes.ts";
import type { Actor } from "./roles.ts";

/** The commit that brought events, and the author that git names. Anyone may write any name there. */
export interface CommitSource {
  readonly commit: string;
  readonly author: string;
}

/** Where events come from. `clone` is the id that their writer states: only a signature proves it. */
export interface EventSource {
  readonly commit: string | null;
  readonly author: string | null;
  readonly clone: string | null;
}

/** The text that a signature over events signs. */
export function signedText(goal: string, events: readonly string[]): string {
  return `holdfast goal events\n${goal}\n${events.join("\n")}\n`;
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
  ...[
    "task.retried",
    "blocker.bypassed",
    "blocker.resolved",
    "question.answered",
    "assumption.settled",
    RETRACTED,
  ],
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
  const names = ["resolution", "workaround", "answer", "evidence", "decision", "statement", "why"];
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
  readonly signed: ReadonlyMap<string, string>;
}

const SHORT_COMMIT = 10;
const PLAIN_NAME = /^[A-Za-z0-9._@+-]+$/;

/** `from a pull, signed by ann`, `signed by ann` for an event of this copy; null if it has no signature. */
export function shortOriginOf({ origins, signed }: Origins, uid: string | null | undefined): string | null {
  const signer = signed.get(uid ?? "");
  const isPulled = origins.has(uid ?? "");
  if (signer === undefined) return isPulled ? "from a pull, unsigned" : null;
  const by = `signed by ${PLAIN_NAME.test(signer) ? signer : quoteText(signer)}`;
  return isPulled ? `from a pull, ${by}` : by;
}

/**
 * The label of an event: `from a pull, unsigned (clone 77aa01f2, commit 3f9ac1d204 by "Eve")`. Null: written
 * here without a signature, or there is no such event.
 */
export function originOf(state: Origins, uid: string | null | undefined): string | null {
  const label = shortOriginOf(state, uid);
  const source = state.sources[state.origins.get(uid ?? "") ?? -1];
  if (label === null || !source) return label;
  const { clone, commit, author } = source;
  const parts = [
    clone === null ? "" : `clone ${clone}`,
    commit === null ? "" : `commit ${commit.slice(0, SHORT_COMMIT)} by ${quoteText(author ?? "unknown")}`,
  ].filter((each) => each !== "");
  return `${label} (${parts.join(", ")})`;
}

/** `originOf` of the event that made an item: `T-001`, `D-001`, `B-001`. */
export function originOfItem(state: Origins, id: string): string | null {
  return originOf(state, state.names.get(id));
}

/** The same without clone and commit, for a briefing. */
export function shortOriginOfItem(state: Origins, id: string): string | null {
  return shortOriginOf(state, state.names.get(id));
}
