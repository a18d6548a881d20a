/**
 * State under a schema, for programs that bring their own: load, update, commit, on a file or in a store alike.
 *
 * An update is a function, and it is run twice: at once, to refuse what the schema refuses, and at the commit, on
 * whatever is there then. Two agents that commit at the same time therefore both get their changes in; none overwrites
 * the other with what it read before. Nothing is visible to others before the commit, and then all of it.
 *
 * One manager may be used by many at once, as by the requests of a server: loads, updates and commits have their turn in
 * the order in which they were called, so that every update is committed once, by the first commit after it.
 */

import { dirname } from "node:path";
import type { Journal } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { copyJson, type Json } from "../model/json.ts";
import { event, type StreamKind } from "../model/stream/index.ts";
import { withFileLock } from "./file-lock.ts";
import { parseJson, readBounded } from "./foreign-text.ts";
import type { JsonSchema } from "./json-schemas.ts";
import { type Migrations, migrate } from "./migrations.ts";
import { checkOf, type SchemaCheck, schemaRefused } from "./schema-check.ts";
import { prepareFile, syncFolder } from "./whole-file.ts";
import { layoutJson } from "./written-text.ts";

type JsonObject = Record<string, unknown>;

/** What a state has to look like, and where it begins. */
export interface StateSpec<State> {
  readonly schema: JsonSchema;
  /** The current `schema_version` and the way to it from older ones. Version 1 without steps unless set. */
  readonly migrations?: Migrations;
  /** What there is before the first commit. */
  readonly initial?: State;
}

/** Where a state is kept. `change` gets what is there, or null, and makes what it returns durable. */
interface Place {
  readonly name: string;
  read(): Promise<JsonObject | null>;
  change(next: (current: JsonObject | null) => JsonObject): Promise<void>;
}

type Update<State> = (state: State) => State | undefined;

/**
 * State of one's own under a JSON Schema, with load, update and commit, where a goal would be too much: settings
 * of an agent, a cursor, a small index. Two that commit at once both get their changes in.
 */
export class StateManager<State extends object = JsonObject> {
  private readonly place: Place;
  private readonly spec: StateSpec<State>;
  private updates: Update<State>[] = [];
  private current: State | null = null;
  private turns: Promise<unknown> = Promise.resolve();

  private constructor(place: Place, spec: StateSpec<State>) {
    this.place = place;
    this.spec = spec;
  }

  /** In a JSON file: written whole or not at all, one writer at a time. */
  static onFile<State extends object = JsonObject>(
    path: string,
    spec: StateSpec<State>,
  ): StateManager<State> {
    return new StateManager(filePlace(path), spec);
  }

  /** In a store, under a name. Every commit is an event: any past state can be read again. */
  static onStore<State extends object = JsonObject>(
    { journal }: { readonly journal: Journal },
    name: string,
    spec: StateSpec<State>,
  ): StateManager<State> {
    return new StateManager(storePlace(journal, name), spec);
  }

  /** What is there now, brought up to the current version and checked. Updates that were not committed are dropped. */
  load(): Promise<State> {
    return this.inTurn(() => this.loadNow());
  }

  private async loadNow(): Promise<State> {
    const check = await checkOf(this.spec.schema);
    const stored = await this.place.read();
    this.updates = [];
    this.current = this.made(stored, [], check);
    return this.current;
  }

  /**
   * Changes the state in memory: in place, or by returning another one. What the schema refuses is refused here, with the
   * path and the rule, and leaves the state as it was. Call `commit` to keep it.
   */
  update(change: Update<State>): Promise<State> {
    return this.inTurn(async () => {
      const check = await checkOf(this.spec.schema);
      const current = this.current ?? (await this.loadNow());
      this.current = this.made(current as JsonObject, [change], check);
      this.updates.push(change);
      return this.current;
    });
  }

  /** Makes the updates durable, on top of what others have committed since the load. */
  commit(): Promise<State> {
    return this.inTurn(async () => {
      const check = await checkOf(this.spec.schema);
      if (this.updates.length === 0) return this.current ?? this.loadNow();
      let made: State | null = null;
      await this.place.change((stored) => {
        made = this.made(stored, this.updates, check);
        return made as JsonObject;
      });
      this.updates = [];
      this.current = made as unknown as State;
      return this.current;
    });
  }

  /** After all that was called before, whatever became of it. */
  private inTurn<Result>(act: () => Promise<Result>): Promise<Result> {
    const turn = this.turns.then(act, act);
    this.turns = turn;
    return turn;
  }

  private made(stored: JsonObject | null, updates: readonly Update<State>[], check: SchemaCheck): State {
    const from = stored ?? (this.spec.initial as JsonObject | undefined);
    if (from === undefined) throw notThere(this.place.name);
    const { value } = migrate(from, this.spec.migrations ?? { current: 1, steps: {} }, this.place.name);
    let state = structuredClone(value) as State;
    for (const change of updates) state = change(state) ?? state;
    const copy = copyJson(state, this.place.name);
    const problem = check(copy);
    if (problem) throw schemaRefused(this.place.name, problem);
    return structuredClone(copy) as unknown as State;
  }
}

const FILE_BYTES = 64 * 1024 * 1024;

function filePlace(path: string): Place {
  const read = async (): Promise<JsonObject | null> => {
    const text = await readBounded(path, FILE_BYTES);
    return text === null ? null : parseJson(text);
  };
  const attempt = (next: (current: JsonObject | null) => JsonObject): Promise<boolean> =>
    withFileLock(path, async (lock) => {
      const prepared = await prepareFile(path, `${layoutJson(next(await read()))}\n`);
      if (!(await lock.isHeld())) {
        await prepared.discard();
        return false;
      }
      await prepared.place();
      await syncFolder(dirname(path));
      return true;
    });
  return {
    name: path,
    read,
    change: async (next) => {
      for (;;) if (await attempt(next)) return;
    },
  };
}

interface StoredState {
  value: JsonObject | null;
}

const anyJson = {
  safeParse: (data: unknown) => ({ success: true, data: data as { value: JsonObject } }) as const,
};

/** A stream whose every event is a whole state: small enough for that, and simple to read with any tool. */
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

function storePlace(journal: Journal, name: string): Place {
  return {
    name: `state ${name}`,
    read: async () => (await journal.load(stateKind, name)).state.value,
    change: async (next) => {
      const log = await journal.open(stateKind, name);
      await log.commit(({ value }) => ({
        events: [{ type: "state.committed", data: { value: next(value) } }],
        result: undefined,
      }));
    },
  };
}

function notThere(name: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${name}: there is no state yet`, {
    hint: "Give an `initial` state, which the first commit then writes.",
    data: { reason: "STATE_MISSING", name },
  });
}
