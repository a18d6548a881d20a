import type { Json } from "../json.ts";
import { type Budget, NO_BUDGET } from "./budget.ts";
import { type Call, isOpen } from "./call.ts";
import { type EncodedIds, IdSet } from "./id-set.ts";
import type { Block, JsonObject, Message } from "./message.ts";
import type { Plan } from "./plan.ts";

export const SESSION_STATUSES = ["active", "completed", "failed", "cancelled"] as const;
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/** A numbered version of a session: a position in its stream, not a copy. */
export interface Checkpoint {
  readonly version: number;
  readonly seq: number;
  readonly at: number;
  readonly label: string | null;
}

/** What somebody said from outside and no turn has heard yet. */
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

/** Everything that a session's log says, as of one position. */
export interface SessionState {
  status: SessionStatus;
  /** Why it ended, and who said so. */
  ended: { readonly why: string | null; readonly by: string | null } | null;
  createdAt: number;
  updatedAt: number;
  title: string | null;
  scratchpadRoot: string | null;
  metadata: JsonObject;
  goal: string | null;
  ttlMs: number | null;
  /** Of a sub-agent: the call that started it. */
  parent: { readonly session: string; readonly callId: string } | null;
  forked: Forked | null;
  /** A fork starts no effects before somebody has said `live`. */
  effects: "live" | "refused";
  messages: Message[];
  /** Whether messages were ever put in, changed or left out afterwards: what was said is then only in the log. */
  edited: boolean;
  /** Ids of all messages there ever were: the same id is appended once, also after a compaction. */
  messageIds: IdSet;
  /** Ids of all calls that messages ever asked for, issued or not: an id means one call, for good. */
  callSlots: IdSet;
  /** Ids of assistant messages whose calls do not all have results yet, oldest first. */
  unfinished: Set<string>;
  plan: Plan | null;
  budget: Budget;
  /** The last version number given; numbers are not reused. */
  version: number;
  checkpoints: Map<number, Checkpoint>;
  calls: Map<string, Call>;
  /** Ids of calls without an outcome, in the order of their issue. */
  openCalls: Set<string>;
  /** Which call holds a key in this session; a definite failure lets go of it. */
  keys: Map<string, string>;
  /** How often a key failed definitely: the key handed to the vendor changes with it. */
  failures: Map<string, number>;
  /** Keys whose last failure proved nothing: what was sent may have landed, so the vendor gets the same key next time. */
  doubted: Map<string, DoubtedKey>;
  /** The latest issued call that is not a read: a `write` is replayed only while it is that one. */
  latestEffect: string | null;
  prompts: QueuedPrompt[];
}

export interface DoubtedKey {
  readonly vendorKey: string;
  /** When it was first handed out. */
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
    parent: null,
    forked: null,
    effects: "live",
    messages: [],
    edited: false,
    messageIds: new IdSet(),
    callSlots: new IdSet(),
    unfinished: new Set(),
    plan: null,
    budget: NO_BUDGET,
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
 * Maps become lists of entries, so that a snapshot is plain JSON and no key can collide with a prototype. What every turn adds
 * to, ids and checkpoints, is most of the snapshot of a session that was compacted: it is kept as what is parsed fastest.
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
    calls: new Map(stored.calls.map((call) => [call.id, call])),
    openCalls: new Set(stored.openCalls),
    keys: new Map(stored.keys),
    failures: new Map(stored.failures),
    doubted: new Map(stored.doubted),
  };
}

/** Of each in turn: version, seq, at, label. */
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
