/**
 * Sessions as a kind of stream, and the preview of what lists show of a session after a write.
 *
 * A write carries facets, items and claimed keys, so they must be known before its events are folded. Folding
 * first would need a copy of the whole state. `FacetPreview` therefore follows each event beside the fold, by
 * the same table of transitions. `test/model/session/session-facets.test.ts` compares the two.
 */

import { sha256 } from "../digest.ts";
import { minJsonLength } from "../json.ts";
import { artifactHash } from "../names.ts";
import type { DraftOf, Event, FacetChange, Place, StreamKind } from "../stream/index.ts";
import { expiryOf, type Item, type StreamFacets } from "../stream/index.ts";
import { type Budget, type BudgetChange, budgetFacet, changeBudget, releaseChild } from "./budget.ts";
import { CALL_TRANSITIONS, type CallAct, type CallStatus, isOpen } from "./call.ts";
import type { Block, JsonObject, Message } from "./message.ts";
import { messageArtifacts, minMessageLength } from "./message.ts";
import { countsAsFailure, illegalCall, leavesDoubt } from "./session-calls.ts";
import { type SessionEvents, sessionEvents } from "./session-events.ts";
import { decodeSession, emptySession, encodeSession, type SessionState } from "./session-state.ts";

export type SessionDraft = DraftOf<SessionEvents>;

export const sessionKind: StreamKind<SessionState, SessionEvents> = {
  kind: "session",
  foldVersion: 11,
  events: sessionEvents,
  initial: emptySession,
  encode: encodeSession,
  decode: decodeSession,
  leastLength: leastSession,
  shrinking: ["transcript.replaced"],
  facets: sessionFacets,
};

/** Messages, and arguments and results of calls, are most of a session. */
function leastSession({ messages, calls }: SessionState): number {
  let length = lengthOf(messages);
  for (const { args, result } of calls.values()) length += minJsonLength(args) + minJsonLength(result);
  return length;
}

/**
 * The length of the first `count` messages of a transcript. A transcript only grows; a replaced one is a new
 * array.
 */
const lengths = new WeakMap<readonly Message[], { readonly count: number; readonly length: number }>();

function lengthOf(messages: readonly Message[]): number {
  let { count, length } = lengths.get(messages) ?? { count: 0, length: 0 };
  for (; count < messages.length; count++) length += minMessageLength(messages[count] as Message);
  lengths.set(messages, { count, length });
  return length;
}

/** Throws for a transition that the fold would reject, before anything is durable (decision 007). */
function sessionFacets(state: SessionState, events: readonly Event[], firstSeq: number): FacetChange {
  const preview = new FacetPreview(state);
  for (let index = 0; index < events.length; index++) {
    const each = events[index] as Event & SessionDraft;
    preview.apply(each, { seq: firstSeq + index, at: each.at }, index);
  }
  return preview.change();
}

/** The act of each event on its call, for the table of transitions. */
const CALL_ACTS = {
  "call.issued": "issue",
  "call.completed": "complete",
  "call.failed": "fail",
  "call.lost": "lose",
  "call.verified": "verify",
  "call.waiting": "wait",
  "call.granted": "grant",
  "call.approved": "grant",
  "call.repeated": "repeat",
} as const satisfies {
  [Type in SessionDraft["type"] as Type extends `call.${string}` ? Type : never]: CallAct;
};

type CallDraft = Extract<SessionDraft, { type: keyof typeof CALL_ACTS }>;

type Facets = { -readonly [Key in keyof StreamFacets]: StreamFacets[Key] };

class FacetPreview {
  private readonly state: SessionState;
  /** Few: a checkpoint, and the calls of one wave. */
  private readonly items: Item[] = [];
  private statuses: Map<string, CallStatus> | undefined;
  private readonly claims: { key: string; event: number }[] = [];
  private readonly releases: string[] = [];
  private readonly artifacts: string[] = [];
  private facets: Facets = {};
  private budget: Budget;
  private open: number;
  private ttlMs: number | null;
  private lastAt = 0;

  constructor(state: SessionState) {
    this.state = state;
    this.budget = state.budget;
    this.open = state.openCalls.size;
    this.ttlMs = state.ttlMs;
  }

  apply(draft: SessionDraft, place: Place, index: number): void {
    this.lastAt = place.at;
    if (draft.type === "message") {
      messageArtifacts(draft.data.message.blocks, this.artifacts);
      this.takePrompt(draft.data.message.id, place);
      return;
    }
    if (draft.type === "checkpoint") {
      this.applyCheckpoint(draft.data, place);
      return;
    }
    for (const artifact of artifactsOf(draft)) this.artifacts.push(artifact);
    if (draft.type === "results") return;
    if (draft.type in CALL_ACTS) {
      this.applyCall(draft as CallDraft, place, index);
      return;
    }
    const change = budgetChange(draft);
    if (change) this.budget = changeBudget(this.budget, change);
    if (draft.type.startsWith("session.")) this.applySession(draft, place);
    if (draft.type === "prompt.queued") {
      const { id } = draft.data;
      this.putItem({ kind: "prompt", id, seq: place.seq, status: "queued", at: place.at, doneAt: null });
    }
    if (draft.type === "checkpoint.deleted") {
      // `endSeq`, because a fork from before this seq still has the checkpoint.
      const id = String(draft.data.version);
      this.putItem({ kind: "checkpoint", id, endSeq: place.seq, status: "deleted" });
    }
  }

  change(): FacetChange {
    if (this.budget !== this.state.budget) this.facets.budget = budgetFacet(this.budget);
    if (this.open !== this.state.openCalls.size) this.facets.openCalls = this.open;
    if (this.ttlMs !== null) this.facets.expiresAt = expiryOf(this.lastAt, this.ttlMs);
    const { facets, items, claims, releases, artifacts } = this;
    return { facets, items, claims, releases, artifacts };
  }

  private applySession(draft: SessionDraft, place: Place): void {
    switch (draft.type) {
      case "session.opened":
        this.facets.status = "active";
        this.applyDescription(draft.data, place);
        break;
      case "session.described":
        this.applyDescription(draft.data, place);
        break;
      case "session.status":
        this.facets.status = draft.data.status;
        break;
      case "session.forked": {
        const { title, goal } = this.state;
        const budget = budgetFacet(this.budget);
        this.facets = { status: "active", title, goal, budget, openCalls: 0 };
        this.open = 0;
        this.applyMetadata({}, this.state.metadata, place);
        break;
      }
      default:
    }
  }

  private applyDescription(
    data: Extract<SessionDraft, { type: "session.described" }>["data"],
    place: Place,
  ): void {
    if (data.metadata !== undefined) this.applyMetadata(this.state.metadata, data.metadata, place);
    if (data.title !== undefined) this.facets.title = data.title;
    if (data.goal !== undefined) this.facets.goal = data.goal;
    if (data.ttlMs === undefined) return;
    this.ttlMs = data.ttlMs;
    if (this.ttlMs === null) this.facets.expiresAt = null;
  }

  /** One item for each value by which sessions are found. None is open: that index serves other lists. */
  private applyMetadata(before: JsonObject, now: JsonObject, { seq, at }: Place): void {
    for (const [name, value] of Object.entries(now)) {
      const old = metadataTag(name, before[name]);
      const tag = metadataTag(name, value);
      const item = { kind: "metadata", seq, at, doneAt: at };
      if (old !== null && old !== tag) this.putItem({ ...item, id: old, status: "replaced" });
      if (tag !== null && old !== tag) this.putItem({ ...item, id: tag, status: "current" });
    }
  }

  /** A queued prompt is an open item until it is in the transcript: supervisors look for open ones. */
  private takePrompt(id: string, { seq, at }: Place): void {
    const isQueued =
      this.state.prompts.some((prompt) => prompt.id === id) ||
      this.items.some((item) => item.kind === "prompt" && item.id === id);
    if (isQueued) this.putItem({ kind: "prompt", id, status: "taken", doneAt: at, endSeq: seq });
  }

  private applyCheckpoint(data: { version: number; label: string | null }, { seq, at }: Place): void {
    const item = { kind: "checkpoint", id: String(data.version), seq, status: "kept", at, doneAt: at };
    this.putItem(data.label === null ? item : { ...item, name: data.label });
  }

  private applyCall(draft: CallDraft, { seq, at }: Place, index: number): void {
    const id = draft.data.callId;
    const before = this.statuses?.get(id) ?? this.state.calls.get(id)?.status ?? "none";
    const transitions: Partial<Record<CallAct, CallStatus>> = CALL_TRANSITIONS[before];
    const status = transitions[CALL_ACTS[draft.type]];
    if (!status) throw illegalCall(id, before, CALL_ACTS[draft.type]);
    this.statuses ??= new Map();
    this.statuses.set(id, status);
    if (!isOpen(status)) this.budget = releaseChild(this.budget, id);
    this.applyKeys(draft, before, index);
    this.open += Number(isOpen(status)) - Number(before !== "none" && isOpen(before));
    if (before !== "none") {
      const rekeyed = draft.type === "call.issued" && this.state.calls.get(id)?.key === "";
      this.putItem(
        isOpen(status)
          ? { kind: "call", id, status, doneAt: null, ...(rekeyed && { key: draft.data.vendorKey, seq }) }
          : { kind: "call", id, status, doneAt: at, endSeq: seq },
      );
      return;
    }
    const { name, key } = callIdentity(draft);
    this.putItem(
      isOpen(status)
        ? { kind: "call", id, status, doneAt: null, seq, at, name, key }
        : { kind: "call", id, status, doneAt: at, endSeq: seq, seq, at, name, key },
    );
  }

  /**
   * The first issue claims a global key; a failure, or an approval with other arguments, releases it. Each
   * definite failure claims a mark, so that every session hands the vendor a key that it has not rejected
   * yet. The first failure that proves nothing also claims a mark, after which failures no longer count.
   */
  private applyKeys(draft: CallDraft, before: CallStatus | "none", event: number): void {
    const call = this.state.calls.get(draft.data.callId);
    const isFirst = before === "none" || call?.key === "";
    if (draft.type === "call.issued" && isFirst && draft.data.scope === "global") {
      this.claims.push({ key: draft.data.key, event });
    }
    if (call?.scope !== "global" || call.key === "") return;
    if (draft.type === "call.approved" && draft.data.args !== undefined) this.releases.push(call.key);
    if (draft.type !== "call.failed") return;
    this.releases.push(call.key);
    if (countsAsFailure(call, draft.data)) {
      const failures = Math.max(call.failures, draft.data.failures ?? 0);
      this.claims.push({ key: failureKey(call.key, failures + 1), event });
    } else if (leavesDoubt(draft.data.by) && call.keySince === null && !draft.data.doubted) {
      this.claims.push({ key: unprovenFailureKey(call.key), event });
    }
  }

  private putItem(item: Item): void {
    const { items } = this;
    for (let at = 0; at < items.length; at++) {
      const known = items[at] as Item;
      if (known.id !== item.id || known.kind !== item.kind) continue;
      items[at] = { ...known, ...item };
      return;
    }
    items.push(item);
  }
}

/**
 * The id of the item of a text, number or boolean in a session's metadata: `user: 42` and `user: "42"` are
 * one. Null for other values. It is a digest, because a codec that encrypts metadata does not see items.
 */
export function metadataTag(name: string, value: unknown): string | null {
  if (!["string", "number", "boolean"].includes(typeof value)) return null;
  return sha256(JSON.stringify([name, String(value)])).slice(0, 32);
}

/** The mark of the first failure of a global key that did not prove that nothing happened. */
export function unprovenFailureKey(key: string): string {
  return `${key}~?`;
}

/** The mark of the n-th definite failure of a global key. */
export function failureKey(key: string, failures: number): string {
  return `${key}~${failures}`;
}

const NONE: readonly never[] = [];

function artifactsOf(draft: SessionDraft): readonly string[] {
  switch (draft.type) {
    case "results":
      return messageArtifacts(draft.data.blocks.filter((block) => "kind" in block) as unknown as Block[]);
    case "prompt.queued":
      return messageArtifacts(draft.data.blocks);
    case "transcript.replaced":
      return draft.data.segments.flatMap((segment) =>
        "add" in segment ? segment.add.flatMap((message) => messageArtifacts(message.blocks)) : [],
      );
    case "call.completed":
    case "call.repeated":
      return draft.data.result && "artifact" in draft.data.result
        ? [artifactHash(draft.data.result.artifact)]
        : NONE;
    default:
      return NONE;
  }
}

function callIdentity(draft: CallDraft): { name: string; key: string } {
  switch (draft.type) {
    case "call.issued":
      return { name: draft.data.tool, key: draft.data.vendorKey };
    case "call.repeated":
      return { name: draft.data.tool, key: draft.data.key };
    case "call.failed":
      return { name: draft.data.tool ?? "unknown", key: "" };
    default:
      return { name: "unknown", key: "" };
  }
}

function budgetChange(draft: SessionDraft): BudgetChange | null {
  switch (draft.type) {
    case "budget.limited":
      return { act: "limit", limits: draft.data.limits };
    case "budget.reserved":
      return { act: "reserve", ...draft.data };
    case "budget.settled":
      return { act: "settle", id: draft.data.id, spent: draft.data.spent };
    case "budget.spent":
      return { act: "spend", amounts: draft.data.amounts };
    default:
      return null;
  }
}
