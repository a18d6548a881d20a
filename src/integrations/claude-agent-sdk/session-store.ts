/**
 * The SDK's transcripts on any Holdfast store.
 *
 * The SDK writes a transcript to its own disk first, and then hands batches of lines to a `SessionStore`. It
 * tries three times and then drops the batch, so a conversation resumed from the store would lack lines.
 * Hence `append` here keeps trying while the store is busy, and later batches wait for it in order.
 *
 *     SDK's disk ──▶ append ──▶ queue ──▶ one conditional append to the log (retried until it is durable)
 *
 * A line with a known `uuid` is not stored again: a batch may be sent twice. Lines without one (titles,
 * modes) are stored as often as they come.
 *
 * A stream, `claude-agent/<id>`, holds the main transcript and those of its sub-agents.
 */

import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { everyStream, type Journal, type Log } from "../../journal/index.ts";
import { sha256 } from "../../model/digest.ts";
import { isHoldfastError } from "../../model/errors.ts";
import { copyJson, type Json } from "../../model/json.ts";
import { quoteValue, streamName } from "../../model/names.ts";
import { event, type StreamKind } from "../../model/stream/index.ts";
import type { Holdfast } from "../../open.ts";
import { refusal } from "../refusal.ts";
import type { SessionKey, SessionStoreEntry } from "./sdk-types.ts";

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 5_000;

/**
 * A `SessionStore` for the option `sessionStore` of `query()`: transcripts are durable on any store, and a
 * conversation can be resumed on another machine. `durable(session)` brings its own.
 * @example
 * const sessionStore = new HoldfastSessionStore(await open("state.db"));
 * const options = { sessionStore, resume: sessionId };
 * for await (const message of query({ prompt, options })) print(message);
 */
export class HoldfastSessionStore {
  private readonly journal: Journal;
  private readonly logs = new Map<string, Promise<Log<Transcripts>>>();
  private readonly queues = new Map<string, Promise<void>>();

  constructor(holdfast: Pick<Holdfast, "journal">) {
    this.journal = holdfast.journal;
  }

  /** Stores a batch once. Resolves when it is durable; waits while the store is busy or full. */
  append = (key: SessionKey, entries: SessionStoreEntry[]): Promise<void> => {
    const id = this.streamOf(key);
    const lines = entries.map((entry, index) => checkedEntry(key, entry, index));
    const before = this.queues.get(id) ?? Promise.resolve();
    const written = before.catch(ignoreEarlier).then(() => this.write(id, key, lines));
    this.queues.set(id, written);
    return written;
  };

  /** Returns all lines in order; null if none was ever stored. */
  load = async (key: SessionKey): Promise<SessionStoreEntry[] | null> => {
    const transcript = (await this.read(key)).get(placeOf(key));
    return transcript ? (structuredClone(transcript.entries) as SessionStoreEntry[]) : null;
  };

  /** Returns the sessions of a project, with the time of the last write in milliseconds. */
  listSessions = async (projectKey: string): Promise<{ sessionId: string; mtime: number }[]> => {
    const found: { sessionId: string; mtime: number }[] = [];
    for await (const { facets, updatedAt } of everyStream(this.journal, { kind: transcriptKind.kind })) {
      const [project, sessionId] = facets.title === null ? [] : (JSON.parse(facets.title) as string[]);
      if (project === projectKey && sessionId !== undefined) found.push({ sessionId, mtime: updatedAt });
    }
    return found;
  };

  /** Returns the subpaths of a session's other transcripts, such as those of its sub-agents. */
  listSubkeys = async (key: { projectKey: string; sessionId: string }): Promise<string[]> => {
    const places = [...(await this.read(key)).keys()];
    const prefix = `${placeOf(key)}/`;
    return places.filter((place) => place.startsWith(prefix)).map((place) => place.slice(prefix.length));
  };

  /** Removes a session's transcripts and their history; with `subpath` only that one's lines. */
  delete = async (key: SessionKey): Promise<void> => {
    const id = this.streamOf(key);
    if (key.subpath === undefined) {
      await this.journal.remove(streamName(transcriptKind.kind, id));
      this.logs.delete(id);
      return;
    }
    const log = await this.log(id);
    await log.commit(() => ({
      events: [{ type: "transcript.removed", data: { place: placeOf(key) } }],
      result: undefined,
    }));
  };

  /** @internal The stream that holds the transcripts of a session. */
  protected streamOf({ projectKey, sessionId }: SessionKey): string {
    return `sha256.${sha256(JSON.stringify([projectKey, sessionId]))}`;
  }

  private async read(key: SessionKey): Promise<Transcripts["places"]> {
    const log = await this.log(this.streamOf(key));
    return (await log.refresh()).places;
  }

  private async write(id: string, key: SessionKey, lines: readonly Json[]): Promise<void> {
    for (let waitMs = FIRST_RETRY_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_RETRY_MS)) {
      try {
        return await this.commit(id, key, lines);
      } catch (error) {
        if (!isHoldfastError(error) || !(error.retryable || error.unknown)) throw error;
        this.journal.warn(error);
        await sleep(waitMs);
      }
    }
  }

  private async commit(id: string, key: SessionKey, lines: readonly Json[]): Promise<void> {
    const log = await this.log(id);
    const place = placeOf(key);
    await log.commit((state) => {
      const known = new Set(state.places.get(place)?.uuids);
      const entries = lines.filter((line) => {
        const { uuid } = line as { uuid?: string };
        const isNew = uuid === undefined || !known.has(uuid);
        if (uuid !== undefined) known.add(uuid);
        return isNew;
      });
      const data = { project: key.projectKey, session: key.sessionId, place, entries };
      return { events: entries.length === 0 ? [] : [{ type: "entries.added", data }], result: undefined };
    });
  }

  private log(id: string): Promise<Log<Transcripts>> {
    const log = this.logs.get(id) ?? this.journal.open(transcriptKind, id);
    this.logs.set(id, log);
    log.catch(() => this.logs.delete(id));
    return log;
  }
}

/** The transcripts of all conversations that one Holdfast session had. They are erased with it. */
export class SessionTranscripts extends HoldfastSessionStore {
  /** A fork reads the conversation of its parent: `projectKey` is the id of the Holdfast session. */
  protected override streamOf({ projectKey }: SessionKey): string {
    return projectKey;
  }
}

/** The batch before this one has reported its own failure. */
function ignoreEarlier(): void {}

function placeOf({ sessionId, subpath }: SessionKey): string {
  return subpath === undefined ? sessionId : `${sessionId}/${subpath}`;
}

function checkedEntry({ sessionId }: SessionKey, entry: unknown, index: number): Json {
  const what = `transcript ${sessionId}: entry ${index}`;
  const line = copyJson(entry, what);
  const { type, uuid } = Object(line) as { type?: unknown; uuid?: unknown };
  if (typeof type === "string" && (uuid === undefined || typeof uuid === "string")) return line;
  const problem = `its type is ${quoteValue(type)}, its uuid ${quoteValue(uuid)} (texts expected)`;
  const hint = "Pass the entries as the SDK hands them out. Nothing was stored.";
  throw refusal("INPUT_INVALID", `${what}: ${problem}`, hint, { sessionId });
}

interface Transcript {
  readonly entries: Json[];
  readonly uuids: Set<string>;
}

interface Transcripts {
  project: string | null;
  session: string | null;
  readonly places: Map<string, Transcript>;
}

const entriesAdded = z.strictObject({
  project: z.string(),
  session: z.string(),
  /** `<session>` or `<session>/<subpath>`. */
  place: z.string(),
  entries: z.array(z.json() as unknown as z.ZodType<Json>),
});
const transcriptRemoved = z.strictObject({ place: z.string() });

function addEntries(state: Transcripts, { project, session, place, entries }: z.infer<typeof entriesAdded>) {
  state.project = project;
  state.session = session;
  const transcript = state.places.get(place) ?? { entries: [], uuids: new Set<string>() };
  state.places.set(place, transcript);
  for (const entry of entries) {
    transcript.entries.push(entry);
    const { uuid } = entry as { uuid?: string };
    if (uuid !== undefined) transcript.uuids.add(uuid);
  }
}

const transcriptKind: StreamKind<Transcripts> = {
  kind: "claude-agent",
  foldVersion: 1,
  events: {
    "entries.added": event(1, entriesAdded, addEntries),
    "transcript.removed": event(1, transcriptRemoved, (state: Transcripts, { place }) => {
      state.places.delete(place);
    }),
  },
  initial: () => ({ project: null, session: null, places: new Map() }),
  encode: ({ project, session, places }) =>
    ({ project, session, places: [...places].map(([place, { entries }]) => [place, entries]) }) as Json,
  decode: (json) => {
    const { project, session, places } = json as unknown as Record<"project" | "session", string> & {
      places: [string, Json[]][];
    };
    const state: Transcripts = { project: null, session: null, places: new Map() };
    for (const [place, entries] of places) addEntries(state, { project, session, place, entries });
    return state;
  },
  shrinking: ["transcript.removed"],
  facets: (state, events) => {
    const [first] = events;
    const added = first?.type === "entries.added" ? (first.data as z.infer<typeof entriesAdded>) : null;
    const project = added?.project ?? state.project;
    const session = added?.session ?? state.session;
    return { facets: { title: JSON.stringify([project, session]), status: "active" } };
  },
};
