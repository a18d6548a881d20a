/** The state of a session, its form in a snapshot, and the set of ids that it remembers. */

import type { Json } from "../json.ts";
import { type Amounts, type Budget, NO_BUDGET } from "./budget.ts";
import { type Call, isOpen } from "./call.ts";
import type { Block, JsonObject, Message } from "./message.ts";

export const SESSION_STATUSES = ["active", "completed", "failed", "cancelled"] as const;
/** A session is `active` until it is ended; `cancelled` means that a caller stopped it. */
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/**
 * A numbered version of a session: a position in its stream, not a copy.
 *
 * @example
 * { version: 3, seq: 41, at: 1_770_000_000_000, label: "before refund" }
 */
export interface Checkpoint {
  readonly version: number;
  readonly seq: number;
  readonly at: number;
  readonly label: string | null;
}

/** A prompt that another process queued and no turn has used yet. */
export interface QueuedPrompt {
  readonly id: string;
  readonly blocks: readonly Block[];
  readonly by: string;
  readonly at: number;
}

export interface Forked {
  readonly session: string;
  readonly version: number;
  readonly seq: number;
}

/**
 * A step of a plan: what to do, how to tell that it is done (`postconditions`), and what proved it
 * (`evidence`).
 *
 * @example
 * { id: "1", description: "Refund 4711", status: "done", postconditions: ["paid is 0"], evidence: ["re_91"] }
 */
export interface PlanStep {
  readonly id: string;
  readonly description: string;
  readonly status: "pending" | "in_progress" | "done" | "skipped" | "failed";
  readonly postconditions: readonly string[];
  readonly evidence: readonly string[];
}

/** A session's plan. Each version has the plan as it was then. */
export interface Plan {
  readonly title?: string;
  readonly steps: readonly PlanStep[];
}

/** The state of a session at one position of its log. */
export interface SessionState {
  status: SessionStatus;
  /** Why the session ended, and who ended it. */
  ended: { readonly why: string | null; readonly by: string | null } | null;
  createdAt: number;
  updatedAt: number;
  title: string | null;
  scratchpadRoot: string | null;
  metadata: JsonObject;
  goal: string | null;
  ttlMs: number | null;
  /** The token of the last owner's lease; 0 before the first. The next owner's is most likely one more. */
  token: number;
  /** The call that started this session, if it is a sub-agent. */
  parent: { readonly session: string; readonly callId: string } | null;
  forked: Forked | null;
  /** A fork refuses effects until a caller sets `live`. */
  effects: "live" | "refused";
  messages: Message[];
  /** True once messages were inserted, changed or removed: the full conversation is then only in the log. */
  edited: boolean;
  /** Ids of all messages ever appended: an id is appended once, even after a compaction. */
  messageIds: IdSet;
  /** Ids of all calls that messages ever asked for, issued or not: an id names one call for good. */
  callSlots: IdSet;
  /** Ids of assistant messages whose calls do not all have results yet, oldest first. */
  unfinished: Set<string>;
  /** The system prompt under which the model last answered. */
  system: string | null;
  plan: Plan | null;
  budget: Budget;
  /** The most that one model call has cost so far, in each unit. */
  largestCall: Amounts;
  /** The latest version number. Numbers are not reused. */
  version: number;
  checkpoints: Map<number, Checkpoint>;
  calls: Map<string, Call>;
  /** Ids of calls without an outcome, in the order in which they were issued. */
  openCalls: Set<string>;
  /** The call that holds a key in this session. A definite failure releases it. */
  keys: Map<string, string>;
  /** Definite failures of a key. The key that is handed to the vendor changes with each. */
  failures: Map<string, number>;
  /**
   * Keys whose last failure proved nothing: the effect may have landed, so the vendor gets the same key
   * again.
   */
  doubted: Map<string, DoubtedKey>;
  /** The latest issued call that is not a read. A `write` counts as a repeat only while it is that one. */
  latestEffect: string | null;
  prompts: QueuedPrompt[];
}

export interface DoubtedKey {
  readonly vendorKey: string;
  /** When the vendor first got it. */
  readonly since: number;
}

export function emptySession(): SessionState {
  return {
    status: "active",
    ended: null,
    createdAt: 0,
    updatedAt: 0,
    title: null,
    scratchpadRoot: null,
    metadata: {},
    goal: null,
    ttlMs: null,
    token: 0,
    parent: null,
    forked: null,
    effects: "live",
    messages: [],
    edited: false,
    messageIds: new IdSet(),
    callSlots: new IdSet(),
    unfinished: new Set(),
    system: null,
    plan: null,
    budget: NO_BUDGET,
    largestCall: {},
    version: 0,
    checkpoints: new Map(),
    calls: new Map(),
    openCalls: new Set(),
    keys: new Map(),
    failures: new Map(),
    doubted: new Map(),
    latestEffect: null,
    prompts: [],
  };
}

/**
 * The state as JSON. Maps become lists of entries, so that no key can collide with a prototype. Ids and
 * checkpoints grow with every turn and are most of a compacted session's snapshot, so they use the form that
 * parses fastest.
 */
export function encodeSession(state: SessionState): Json {
  return {
    ...state,
    messageIds: state.messageIds.encode(),
    callSlots: state.callSlots.encode(),
    unfinished: [...state.unfinished],
    checkpoints: [...state.checkpoints.values()].flatMap(({ version, seq, at, label }) => [
      version,
      seq,
      at,
      label,
    ]),
    calls: [...state.calls.values()],
    openCalls: [...state.openCalls],
    keys: [...state.keys],
    failures: [...state.failures],
    doubted: [...state.doubted],
  } as unknown as Json;
}

export function decodeSession(json: Json): SessionState {
  const stored = json as unknown as Omit<
    SessionState,
    | "messageIds"
    | "callSlots"
    | "unfinished"
    | "checkpoints"
    | "calls"
    | "openCalls"
    | "keys"
    | "failures"
    | "doubted"
  > & {
    messageIds: EncodedIds;
    callSlots: EncodedIds;
    unfinished: string[];
    checkpoints: CheckpointFields;
    calls: Call[];
    openCalls: string[];
    keys: [string, string][];
    failures: [string, number][];
    doubted: [string, DoubtedKey][];
  };
  return {
    ...stored,
    messageIds: new IdSet(stored.messageIds),
    callSlots: new IdSet(stored.callSlots),
    unfinished: new Set(stored.unfinished),
    checkpoints: decodeCheckpoints(stored.checkpoints),
    calls: new Map(stored.calls.map((call) => [call.callId, call])),
    openCalls: new Set(stored.openCalls),
    keys: new Map(stored.keys),
    failures: new Map(stored.failures),
    doubted: new Map(stored.doubted),
  };
}

/** Four values per checkpoint: version, seq, at, label. */
type CheckpointFields = readonly (number | string | null)[];

function decodeCheckpoints(fields: CheckpointFields): Map<number, Checkpoint> {
  const checkpoints = new Map<number, Checkpoint>();
  for (let place = 0; place < fields.length; place += 4) {
    const version = fields[place] as number;
    const seq = fields[place + 1] as number;
    const at = fields[place + 2] as number;
    checkpoints.set(version, { version, seq, at, label: fields[place + 3] as string | null });
  }
  return checkpoints;
}

/** Calls without an outcome, oldest first. */
export function openCallsOf(state: SessionState): Call[] {
  const open: Call[] = [];
  for (const id of state.openCalls) {
    const call = state.calls.get(id);
    if (call && isOpen(call.status)) open.push(call);
  }
  return open;
}

/** Ids as JSON: joined by spaces, or a list if one of them is empty or has a space. */
export type EncodedIds = string | readonly string[];

/**
 * All ids that a session ever had. Readers rarely ask for one, so everything is lazy: ids of a snapshot are
 * split, and later ids are added to the set, at the first lookup. Most ids come in order, as ours do; an id
 * greater than all others is new, which needs no lookup.
 */
class IdSet {
  private ids = new Set<string>();
  /** Ids of a snapshot that are not split yet. */
  private early: EncodedIds;
  private recent: string[] = [];
  /** Undefined until the ids of the snapshot are split. */
  private greatest: string | undefined;

  constructor(early: EncodedIds = "") {
    this.early = early;
    if (early.length === 0) this.greatest = "";
  }

  add(id: string): void {
    this.recent.push(id);
    if (this.greatest !== undefined && id > this.greatest) this.greatest = id;
  }

  has(id: string): boolean {
    if (this.greatest !== undefined && id > this.greatest) return false;
    return this.known().has(id) || (this.early.length > 0 && this.all().has(id));
  }

  encode(): EncodedIds {
    const list = [...this.all()];
    return list.some((id) => id === "" || id.includes(" ")) ? list : list.join(" ");
  }

  /** The set without ids that are not split yet. */
  private known(): Set<string> {
    if (this.recent.length > 0) {
      for (const id of this.recent) this.ids.add(id);
      this.recent = [];
    }
    return this.ids;
  }

  /** All ids, in the order of their arrival. */
  private all(): Set<string> {
    const { early } = this;
    const known = this.known();
    if (early.length === 0) return known;
    this.early = "";
    this.ids = new Set(typeof early === "string" ? early.split(" ") : early);
    for (const id of known) this.ids.add(id);
    let greatest = "";
    for (const id of this.ids) if (id > greatest) greatest = id;
    this.greatest = greatest;
    return this.ids;
  }
}
