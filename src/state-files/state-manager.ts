/**
 * A program's own state under a JSON Schema: load, update, commit, in a file or in a store.
 *
 * An update is a function that runs twice: at once, to refuse what the schema refuses, and at the commit, on
 * the state stored by then. So two agents that commit at the same time both get their changes in. Callers may
 * share one manager: loads, updates and commits run in the order of their calls.
 */

import type { Journal } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { copyJson, type Json } from "../model/json.ts";
import { streamName } from "../model/names.ts";
import { event, type StreamKind } from "../model/stream/index.ts";
import { type Migrations, migrate } from "./migrations.ts";
import type { JsonSchema } from "./schema-check.ts";
import { checkOf, type SchemaCheck, schemaRefused } from "./schema-check.ts";
import { type NextState, type StateChange, StateFile } from "./state-file.ts";

type JsonObject = Record<string, unknown>;

/** The rules that a `StateManager` checks before each write. */
export interface StateSpec<State> {
  readonly schema: JsonSchema;
  /** The current `schema_version` and the steps from older ones. Default: version 1, no steps. */
  readonly migrations?: Migrations;
  /** The state before the first commit. Without it, loading a state that does not exist throws. */
  readonly initial?: State;
  /** For how long a file refuses commits after a person edited it. Default: 5,000 ms; 0 switches it off. */
  readonly quietMs?: number;
}

const QUIET_MS = 5_000;

/** `change` gets the stored state, or null, and makes its result durable. */
interface Storage {
  readonly name: string;
  read(): Promise<JsonObject | null>;
  change(next: NextState): Promise<void>;
  history(): Promise<StateChange[]>;
}

type Update<State> = (state: State) => State | undefined;

/**
 * A program's own state under a JSON Schema, where a goal would be too much: settings, a cursor.
 *
 *     const settings = StateManager.onFile("settings.json", { schema, initial });
 *     await settings.update((state) => ({ ...state, runs: state.runs + 1 }));
 *     await settings.commit();
 */
export class StateManager<State extends object = JsonObject> {
  private readonly storage: Storage;
  private readonly spec: StateSpec<State>;
  private updates: Update<State>[] = [];
  private current: State | null = null;
  private queue: Promise<unknown> = Promise.resolve();

  private constructor(storage: Storage, spec: StateSpec<State>) {
    this.storage = storage;
    this.spec = spec;
  }

  /**
   * Keeps the state in a JSON file: written whole or not at all, one writer at a time. Every commit is also a
   * line of `<name>.events.jsonl` beside it. For five seconds after a person's edit, commits fail with
   * HUMAN_EDITING. A schema that has `last_human_touch` gets the time of the last edit there.
   */
  static onFile<State extends object = JsonObject>(
    path: string,
    spec: StateSpec<State>,
  ): StateManager<State> {
    return new StateManager(new StateFile(path, spec.quietMs ?? QUIET_MS), spec);
  }

  /** Keeps the state in a store, under a name. Each commit is an event, so past states stay readable. */
  static onStore<State extends object = JsonObject>(
    { journal }: { readonly journal: Journal },
    name: string,
    spec: StateSpec<State>,
  ): StateManager<State> {
    return new StateManager(storeStorage(journal, name), spec);
  }

  /** Reads the stored state, migrates it to the current version and checks it. Drops uncommitted updates. */
  load(): Promise<State> {
    return this.enqueue(() => this.loadNow());
  }

  private async loadNow(): Promise<State> {
    const check = await checkOf(this.spec.schema);
    const stored = await this.storage.read();
    this.updates = [];
    this.current = this.build(stored, [], check);
    return this.current;
  }

  /** Changes the state in memory, in place or by returning another one. Throws if it breaks the schema. */
  update(change: Update<State>): Promise<State> {
    return this.enqueue(async () => {
      const check = await checkOf(this.spec.schema);
      const current = this.current ?? (await this.loadNow());
      this.current = this.build(current as JsonObject, [change], check);
      this.updates.push(change);
      return this.current;
    });
  }

  /** Makes the updates durable, on top of what other processes have committed since the load. */
  commit(): Promise<State> {
    return this.enqueue(async () => {
      const check = await checkOf(this.spec.schema);
      if (this.updates.length === 0) return this.current ?? this.loadNow();
      let made: State | null = null;
      await this.storage.change((stored, touch) => {
        made = this.build(stored, [...this.updates, ...this.touchUpdate(touch)], check);
        return made as JsonObject;
      });
      this.updates = [];
      this.current = made as unknown as State;
      return this.current;
    });
  }

  /**
   * Every stored state, oldest first: committed by programs, or edited by a person.
   *
   * @example
   * const before = (await settings.history()).at(-2)?.state; // the state before the last commit
   */
  history(): Promise<StateChange<State>[]> {
    return this.storage.history() as Promise<StateChange<State>[]>;
  }

  private touchUpdate(touch: string | null): Update<State>[] {
    const isKept = Object.hasOwn((this.spec.schema["properties"] ?? {}) as object, "last_human_touch");
    return isKept && touch !== null ? [(state) => ({ ...state, last_human_touch: touch })] : [];
  }

  private enqueue<Result>(act: () => Promise<Result>): Promise<Result> {
    const turn = this.queue.then(act, act);
    this.queue = turn;
    return turn;
  }

  private build(stored: JsonObject | null, updates: readonly Update<State>[], check: SchemaCheck): State {
    const from = stored ?? (this.spec.initial as JsonObject | undefined);
    if (from === undefined) throw missingState(this.storage.name);
    const { value } = migrate(from, this.spec.migrations ?? { current: 1, steps: {} }, this.storage.name);
    let state = structuredClone(value) as State;
    for (const change of updates) state = change(state) ?? state;
    const copy = copyJson(state, this.storage.name);
    const problem = check(copy);
    if (problem) throw schemaRefused(this.storage.name, problem);
    return structuredClone(copy) as unknown as State;
  }
}

interface StoredState {
  value: JsonObject | null;
}

const anyJson = {
  safeParse: (data: unknown) => ({ success: true, data: data as { value: JsonObject } }) as const,
};

/** Each event holds the whole state: it is small, and any tool can read it. */
const stateKind: StreamKind<StoredState> = {
  kind: "state",
  foldVersion: 1,
  events: {
    "state.committed": event(1, anyJson, (state: StoredState, data: { value: JsonObject }) => {
      state.value = data.value;
    }),
  },
  initial: () => ({ value: null }),
  encode: (state) => state as unknown as Json,
  decode: (json) => json as unknown as StoredState,
};

function storeStorage(journal: Journal, name: string): Storage {
  return {
    name: `state ${name}`,
    read: async () => (await journal.load(stateKind, name)).state.value,
    change: async (next) => {
      const log = await journal.open(stateKind, name);
      await log.commit(({ value }) => ({
        events: [{ type: "state.committed", data: { value: next(value, null) } }],
        result: undefined,
      }));
    },
    history: async () => {
      const changes: StateChange[] = [];
      for await (const [seq, { at, data }] of journal.events(streamName(stateKind.kind, name)))
        changes.push({ seq, at: new Date(at), by: "program", state: (data as { value: JsonObject }).value });
      return changes;
    },
  };
}

function missingState(name: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${name}: there is no state yet`, {
    hint: "Give an `initial` state, which the first commit then writes.",
    data: { reason: "STATE_MISSING", name },
  });
}
