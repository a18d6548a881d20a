/**
 * The context of an operation: who acts, and the store, which opens on first use.
 *
 * An operation that only reads, or that needs existing data, never creates a store. `init` and `import`
 * create one. On a database server, the first operation that can start from nothing creates the schema.
 */

import { saveClaims, spoolFolder } from "../agent-sessions/index.ts";
import { type Goal, goalCore, goalWaits, openGoal, resetLostClaims } from "../goal/index.ts";
import type { Journal } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { type Actor, mayDo } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { type Holdfast, type OpenOptions, open } from "../open.ts";
import { openStore } from "../open-store.ts";
import { ingestNews } from "./agent-sessions.ts";
import { currentGoal, goalRows, knownGoals } from "./current-goal.ts";
import { readSeal, sealWarning } from "./moved-store.ts";
import { showsAnother, syncPlanningFolder } from "./planning-folder.ts";
import type { StoreOptions, StorePlace } from "./store-place.ts";
import {
  findStore,
  isRemote,
  locateStore,
  openOptionsOf,
  requireStore,
  restoreFromRepository,
} from "./store-place.ts";
import { type EventMerge, mergeNewEvents, unparsedEdits } from "./unmerged-changes.ts";

export type Caller = "person" | "agent";

export interface ContextOptions extends StoreOptions {
  /** Does not read the configuration file: `trust` must work while it is not trusted. */
  readonly ignoresConfig?: boolean;
  readonly cwd?: string;
  readonly goal?: string | undefined;
  readonly by: Actor;
  readonly caller: Caller;
  /** The evidence that an agent runs this command; null or unset without any. */
  readonly agent?: string | null;
  /** The surface that a person uses, recorded with their answers: `web`. */
  readonly via?: string;
  /** Called with problems that do not stop the operation; a process warning unless set. */
  readonly warn?: (error: unknown) => void;
}

const WATCHER: Actor = { name: "holdfast", role: "supervisor" };

export class Context {
  readonly place: StorePlace;
  readonly cwd: string;
  by: Actor;
  readonly caller: Caller;
  readonly agent: string | null;
  /** Recorded with a person's act, if it did not come from the command line. */
  readonly via: { readonly via?: string };
  readonly now: () => number = Date.now;
  readonly isStoreNamed: boolean;
  /** Whether answers cover all namespaces. An agent sees only its own: nothing crosses a namespace. */
  readonly coversAll: boolean;
  /** Event files and edits that the last merge could not read, one line each. */
  notMerged: readonly string[] = [];
  private readonly defaultGoal: string | undefined;
  private readonly openOptions: Pick<OpenOptions, "warn" | "namespace" | "codecs" | "encryption">;
  private opening: Promise<Holdfast> | undefined;
  private merge: EventMerge | null = null;
  /** The goal that was opened last to be written. */
  private written: Goal | null = null;
  private whyReadOnly: HoldfastError | null = null;
  private hasWarnedOfMove = false;

  /** Finds the store, which opens later. Reads the configuration file of the project. */
  static async of(options: ContextOptions): Promise<Context> {
    const cwd = options.cwd ?? process.cwd();
    const { store, ignoresConfig } = options;
    return new Context(options, cwd, ignoresConfig ? findStore(store, cwd) : await locateStore(options, cwd));
  }

  private constructor(options: ContextOptions, cwd: string, place: StorePlace) {
    this.cwd = cwd;
    this.place = place;
    this.isStoreNamed = place.isNamed;
    this.coversAll = place.coversAll && options.caller === "person";
    this.by = options.by;
    this.caller = options.caller;
    this.agent = options.agent ?? null;
    this.via = options.via === undefined ? {} : { via: options.via };
    this.defaultGoal = options.goal;
    this.openOptions = { ...openOptionsOf(place), ...(options.warn && { warn: options.warn }) };
  }

  /** The store, which must exist. With `orSchema`, a missing schema on a database server is created. */
  async holdfast({ orSchema = false } = {}): Promise<Holdfast> {
    if (!this.opening && !(await restoreFromRepository(this.place, this.openOptions)))
      requireStore(this.place);
    this.opening ??= this.openOrRead(!orSchema);
    return this.opening;
  }

  /** The namespaces that an answer covers: its own, unless only others have something, then all others. */
  async journals(): Promise<Journal[]> {
    const { journal } = await this.holdfast();
    const all = this.coversAll ? await journal.namespaces() : [];
    const others = all.filter((each) => each !== journal.namespace);
    const own = others.length < all.length || others.length === 0 ? [journal] : [];
    return [...own, ...others.map((namespace) => journal.inNamespace(namespace))];
  }

  create(): Promise<Holdfast> {
    this.opening ??= this.openOrRead(false);
    return this.opening;
  }

  /** Opens a store that cannot be written read-only; writes to it are refused later. */
  private async openOrRead(mustExist: boolean): Promise<Holdfast> {
    const { address, exists, isUnreadable } = this.place;
    if (isUnreadable) requireStore(this.place);
    try {
      // `findStore` has looked on the disk; only a server must be asked.
      const isOnServer = mustExist && address !== undefined && isRemote(address);
      const store = isOnServer ? { store: await openStore(address, { mustExist }) } : {};
      return await open(address ?? {}, { ...this.openOptions, ...store });
    } catch (error) {
      const isReadable = isHoldfastError(error, "STORE_READONLY") || isHoldfastError(error, "STORE_REWOUND");
      if (!exists || !isReadable) throw error;
      const store = await openStore(address, { readOnly: true }).catch((missing: unknown) => {
        // The store was to be created: "not found" would hide why that failed.
        throw isHoldfastError(missing, "STORE_NOT_FOUND") ? error : missing;
      });
      this.whyReadOnly = error;
      return open(undefined, { ...this.openOptions, store });
    }
  }

  /** Warns once if the open store has moved, or if a move of it is unfinished. */
  async warnIfMoved(): Promise<void> {
    const holdfast = await this.opening?.catch(() => null);
    if (!holdfast || this.hasWarnedOfMove) return;
    const { journal } = holdfast;
    const warning = await readSeal(journal).then(sealWarning, (error: unknown) => {
      // The operation itself has succeeded, or failed for another reason.
      journal.warn(error);
      return null;
    });
    if (warning === null) return;
    this.hasWarnedOfMove = true;
    journal.warn(warning);
  }

  get isReadOnly(): boolean {
    return this.whyReadOnly !== null;
  }

  explainReadOnly(error: unknown): unknown {
    return isHoldfastError(error, "STORE_READONLY") ? (this.whyReadOnly ?? error) : error;
  }

  /** The store after merging `.planning/events/`. Call it before any answer about goals. */
  async current(): Promise<Holdfast> {
    const holdfast = await this.holdfast();
    if (!this.isStoreNamed) {
      this.merge = await mergeNewEvents(this.place, holdfast);
      this.notMerged = [...this.merge.problems, ...unparsedEdits(this.place)];
      if (!this.isReadOnly) await ingestNews(holdfast.journal, this.place);
    }
    return holdfast;
  }

  /** A goal to write to. A goal past its time to live must be resumed first. */
  async goal(id: string | undefined): Promise<Goal> {
    const holdfast = await this.holdfast();
    const name = await this.goalId(id);
    const failure = this.merge?.failureOf(name) ?? null;
    if (failure !== null) throw failure;
    try {
      const goal = await openGoal(holdfast.journal, name, { by: this.by, root: this.place.root });
      const { root, home } = this.place;
      const options = { first: "if edited", eventFiles: this.merge?.names ?? null, home } as const;
      if (this.followsFolder()) await syncPlanningFolder(goal, root, options);
      await this.signActs(goal);
      this.written = goal;
      return goal;
    } catch (error) {
      if (!isHoldfastError(error, "STATE_STALE")) throw error;
      throw new HoldfastError("STATE_STALE", error.message, {
        hint: this.forCaller(
          `Read holdfast brief --goal ${name}. If it still holds: holdfast resume --force --goal ${name}`,
          `Read brief. If it still holds, call resume with force: true.`,
        ),
        cause: error,
        data: error.data,
      });
    }
  }

  /** Tells the hooks of agents which files belong to claimed tasks. Called after a write. */
  noteClaims(): void {
    if (this.written === null || this.isStoreNamed) return;
    try {
      saveClaims(spoolFolder(this.place.home), this.written.state);
    } catch (error) {
      // Only a warning depends on it, so a folder that cannot be written stops no command.
      goalCore(this.written).journal.warn(error);
    }
  }

  /** Signs what a person does to the goal, if this machine has a key for it. An agent gets no signature. */
  private async signActs(goal: Goal): Promise<void> {
    if (this.by.role !== "human" || this.agent !== null || this.caller !== "person") return;
    const { ownKey, signText } = await import("../signing/index.ts");
    const own = ownKey();
    if (own) goalCore(goal).signer = (text) => signText(own, "act", text);
  }

  /** For answers to tools that require an approver: the key of this machine's person signs them. */
  get signsAnswers(): { readonly sign?: (text: string) => Promise<string> } {
    if (this.agent !== null || this.caller !== "person") return {};
    const sign = async (text: string): Promise<string> => {
      const { ownKey, signText } = await import("../signing/index.ts");
      const own = ownKey();
      // An empty text is no signature: the answer is refused, with a hint how to set a key.
      return own === null ? "" : signText(own, "answer", text);
    };
    return { sign };
  }

  async syncFolder(goal: Goal): Promise<void> {
    const onOtherGoal = (other: string): void => goalCore(goal).journal.warn(showsAnother(goal.id, other));
    const { root, home } = this.place;
    if (this.followsFolder()) await syncPlanningFolder(goal, root, { onOtherGoal, home });
  }

  private followsFolder(): boolean {
    return !this.isStoreNamed && !this.isReadOnly;
  }

  async readGoal(id: string | undefined): Promise<Goal> {
    const holdfast = await this.holdfast();
    const name = await this.goalId(id);
    return openGoal(holdfast.journal, name, { by: this.by, root: this.place.root, stale: "use" });
  }

  /** The goal as an answer shows it: a task whose holder is gone is put back first. */
  async shownGoal(id: string | undefined): Promise<Goal> {
    const goal = await this.readGoal(id);
    if (!this.isReadOnly) await resetLostClaims(goal, WATCHER, { staleAfterMs: null, keepsImported: true });
    return goal;
  }

  /** The named goal (a unique prefix is enough), else this worktree's, else the only one that is not done. */
  async goalId(id: string | undefined): Promise<string> {
    const { journal } = await this.current();
    const rows = await goalRows(journal);
    const { all, open: goals, current } = knownGoals(rows, currentGoal(this.place));
    const named = id ?? this.defaultGoal;
    if (named === undefined ? all.length === 0 : !all.includes(named)) this.refuseWaiting(named);
    if (named !== undefined) return matchId("goal", named, all, "GOAL_NOT_FOUND", "holdfast goal list");
    if (current !== null) return current;
    throw goals.length === 0 ? this.noGoal() : this.severalGoals(goals);
  }

  /** Call it for a goal that the store does not have: throws if its events wait for their time. */
  refuseWaiting(named: string | undefined): void {
    for (const [goal, until] of this.merge?.waiting ?? [])
      if (named === undefined || named === goal) throw goalWaits(goal, until);
  }

  private noGoal(): HoldfastError {
    const command = 'holdfast goal new <name> "what to achieve"';
    const hint = this.forCaller(
      `Create one: ${command}`,
      mayDo(this.by.role, "create")
        ? "Create one with goal_new, or ask a person what to achieve."
        : `Ask a person to create one: ${command}`,
    );
    return new HoldfastError("GOAL_NOT_FOUND", "there is no goal yet", { hint, data: { goals: [] } });
  }

  private severalGoals(goals: readonly string[]): HoldfastError {
    const person = "Pass --goal, set HOLDFAST_GOAL, or run holdfast goal use <goal>";
    const how = this.forCaller(person, "Pass `goal`");
    return new HoldfastError("GOAL_NOT_FOUND", `which goal? There are ${goals.length}`, {
      hint: `${how}. One of: ${goals.slice(0, 20).join(", ")}`,
      data: { goals },
    });
  }

  private forCaller(person: string, agent: string): string {
    return this.caller === "person" ? person : agent;
  }

  async close(): Promise<void> {
    const holdfast = await this.opening?.catch(() => null);
    await holdfast?.close();
  }
}

/** The known id that equals `typed`, or the only one that starts with it. */
export function matchId(
  what: string,
  typed: string,
  known: readonly string[],
  code: "GOAL_NOT_FOUND" | "STREAM_NOT_FOUND" | "CALL_NOT_FOUND",
  list: string,
): string {
  if (known.includes(typed)) return typed;
  const matches = [...new Set(known.filter((each) => each.startsWith(typed)))];
  const [only, other] = matches;
  if (typed !== "" && only !== undefined && other === undefined) return only;
  if (typed !== "" && only !== undefined) {
    throw new HoldfastError(code, `${what} ${typed} is ambiguous: ${matches.slice(0, 5).join(", ")}`, {
      hint: "Type more of it.",
      data: { typed, matches },
    });
  }
  throw new HoldfastError(code, `there is no ${what} ${JSON.stringify(typed)}`, {
    hint: `${didYouMean(typed, known)}List them: ${list}`,
    data: { typed },
  });
}
