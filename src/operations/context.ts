/**
 * What an operation stands on: who acts, for whom, and the store, opened when it is first needed. A store that is not
 * there is not made by looking at it, nor by acting on what would have to be in it; only `init` and `import` make one, and
 * on a database server whatever can be the first to be done there.
 */

import { type Goal, goalCore, openGoal } from "../goal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { type Actor, mayDo } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { type Holdfast, open } from "../open.ts";
import { openStore } from "../open-store.ts";
import { currentGoal, goalRows, knownGoals } from "./current-goal.ts";
import { unparsedEdits } from "./kept-beside.ts";
import { sealNote } from "./moved-store.ts";
import { ingestNews } from "./news.ts";
import { showsAnother, syncPlanningFolder } from "./planning-folder.ts";
import { findStore, isRemote, refuseMissing, restoreFromRepository, type StorePlace } from "./store-place.ts";

/** On whose side the surface is that calls. */
export type Caller = "person" | "agent";

export interface ContextOptions {
  /** Of the store; found from the working directory unless given. */
  readonly address?: string | undefined;
  readonly cwd?: string;
  /** The goal that is meant where an operation does not say. */
  readonly goal?: string | undefined;
  readonly by: Actor;
  readonly caller: Caller;
  /** Told of what went wrong beside what was asked for; a process warning unless set. */
  readonly warn?: (error: unknown) => void;
}

export class Context {
  readonly place: StorePlace;
  readonly cwd: string;
  readonly by: Actor;
  readonly caller: Caller;
  readonly now: () => number = Date.now;
  /** Whether somebody named the store, instead of leaving it to where we are. */
  readonly isStoreSaid: boolean;
  /** What git brought or a person wrote and could not be taken in, when it was last looked for, a line each. */
  notTakenIn: readonly string[] = [];
  private readonly saidGoal: string | undefined;
  private readonly openOptions: Pick<ContextOptions, "warn">;
  private opening: Promise<Holdfast> | undefined;
  private whyReadOnly: HoldfastError | null = null;
  private isMovedTold = false;

  constructor(options: ContextOptions) {
    this.cwd = options.cwd ?? process.cwd();
    this.place = findStore(options.address, this.cwd);
    this.isStoreSaid = options.address !== undefined && options.address !== "";
    this.by = options.by;
    this.caller = options.caller;
    this.saidGoal = options.goal;
    this.openOptions = options.warn ? { warn: options.warn } : {};
  }

  /** The store, which has to be there. `orSchema`: where it is a schema on a server, it is made if need be. */
  async holdfast({ orSchema = false } = {}): Promise<Holdfast> {
    if (!this.opening && !(await restoreFromRepository(this.place, this.openOptions)))
      refuseMissing(this.place);
    this.opening ??= this.openOrLook(!orSchema);
    return this.opening;
  }

  /** The store, made if it is not there. */
  create(): Promise<Holdfast> {
    this.opening ??= this.openOrLook(false);
    return this.opening;
  }

  /** Where nothing can be written one can still look; whoever writes is refused then. */
  private async openOrLook(mustExist: boolean): Promise<Holdfast> {
    const { address, exists, isKeptOut } = this.place;
    if (isKeptOut) refuseMissing(this.place);
    try {
      // What is on a disk was looked for before; only a server has to be asked.
      const there = mustExist && address !== undefined && isRemote(address);
      const store = there ? { store: await openStore(address, { mustExist }) } : {};
      return await open(address, { ...this.openOptions, ...store });
    } catch (error) {
      if (!exists || !isHoldfastError(error, "STORE_READONLY")) throw error;
      const store = await openStore(address, { readOnly: true }).catch((missing: unknown) => {
        // It was to be made, and may not be: that there is none yet is no news to whoever makes it.
        throw isHoldfastError(missing, "STORE_NOT_FOUND") ? error : missing;
      });
      this.whyReadOnly = error;
      return open(undefined, { ...this.openOptions, store });
    }
  }

  /** Told once, and only of a store that was opened: what was read there is how things stood before it moved, or a part. */
  async tellMoved(): Promise<void> {
    // What could not be opened was reported to whoever needed it.
    const holdfast = await this.opening?.catch(() => null);
    if (!holdfast || this.isMovedTold) return;
    const { store, namespace, warn } = holdfast.journal;
    const note = await sealNote(store, namespace).catch((error: unknown) => {
      // What was asked for is done, or failed for a reason of its own: this is only beside it.
      warn(error);
      return null;
    });
    if (note === null) return;
    this.isMovedTold = true;
    warn(note);
  }

  /** Whether the store could only be opened to look at it. */
  get isReadOnly(): boolean {
    return this.whyReadOnly !== null;
  }

  /** Whoever is refused because the store can only be looked at is told why that is. */
  reasonOf(error: unknown): unknown {
    return isHoldfastError(error, "STORE_READONLY") ? (this.whyReadOnly ?? error) : error;
  }

  /**
   * The store, with what git brought into `.planning/events/` since: asked before anything is said of goals. A store that
   * cannot be written to answers as it is, and why is told.
   */
  async current(): Promise<Holdfast> {
    const holdfast = await this.holdfast();
    if (!this.isStoreSaid)
      this.notTakenIn = [...(await ingestNews(this.place, holdfast)), ...unparsedEdits(this.place)];
    return holdfast;
  }

  /** A goal to write to. What is older than its time to live has to be taken up first. */
  async goal(id: string | undefined): Promise<Goal> {
    const holdfast = await this.holdfast();
    const name = await this.goalId(id);
    try {
      const goal = await holdfast.goal(name, { by: this.by, root: this.place.root });
      await this.follow(goal);
      return goal;
    } catch (error) {
      if (!isHoldfastError(error, "STATE_STALE")) throw error;
      throw new HoldfastError("STATE_STALE", error.message, {
        hint: this.inWords(
          `Read holdfast brief --goal ${name}. If it is still true, take it up: holdfast resume --force --goal ${name}`,
          `Read brief. If it is still true, take it up: resume with force: true.`,
        ),
        cause: error,
        data: error.data,
      });
    }
  }

  /** Keeps the files of the project up to date with what is written through this handle. */
  async follow(goal: Goal, notShown?: (other: string) => void): Promise<void> {
    if (!this.isStoreSaid && !this.isReadOnly) await syncPlanningFolder(goal, this.place.root, notShown);
  }

  /** The same for whoever begins or chooses a goal, and should know what the folder shows. */
  async followChosen(goal: Goal): Promise<void> {
    await this.follow(goal, (other) => goalCore(goal).journal.warn(showsAnother(goal.id, other)));
  }

  /** A goal to read, however old it is. */
  async readGoal(id: string | undefined): Promise<Goal> {
    const holdfast = await this.holdfast();
    const name = await this.goalId(id);
    const options = { by: this.by, root: this.place.root, stale: "use" } as const;
    if (this.isStoreSaid) return holdfast.goal(name, options);
    // What git brought is in since the name was looked for, or that it is not was told.
    return openGoal(holdfast.journal, name, options);
  }

  /** Which goal is meant: the one that was said, by a prefix too, else this worktree's, else the only one not done. */
  async goalId(id: string | undefined): Promise<string> {
    const { journal } = await this.current();
    const rows = await goalRows(journal.store, journal.namespace);
    const { all, open: goals, current } = knownGoals(rows, currentGoal(this.place));
    const said = id ?? this.saidGoal;
    if (said !== undefined) return pick("goal", said, all, "GOAL_NOT_FOUND", "holdfast goal list");
    if (current !== null) return current;
    const isNone = goals.length === 0;
    throw new HoldfastError(
      "GOAL_NOT_FOUND",
      isNone ? "there is no goal yet" : `which goal? There are ${goals.length}`,
      {
        hint: isNone
          ? this.inWords(
              'Make one: holdfast goal new <name> "what is to be reached"',
              mayDo(this.by.role, "create")
                ? "Make one with goal_new, or ask a person what is to be reached."
                : 'Ask a person to make one: holdfast goal new <name> "what is to be reached"',
            )
          : `${this.inWords("Say --goal, or set HOLDFAST_GOAL, or choose with holdfast goal use", "Say goal")}, one of: ${goals.slice(0, 20).join(", ")}`,
        data: { goals },
      },
    );
  }

  /** People type commands; agents call tools with fields. */
  private inWords(person: string, agent: string): string {
    return this.caller === "person" ? person : agent;
  }

  async close(): Promise<void> {
    if (!this.opening) return;
    // What could not be opened was reported to whoever needed it.
    const holdfast = await this.opening.catch(() => null);
    await holdfast?.close();
  }
}

/** The id that was typed, or the only one that begins with it. */
export function pick(
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
    throw new HoldfastError(code, `${what} ${typed} may be any of ${matches.slice(0, 5).join(", ")}`, {
      hint: "Type more of it.",
      data: { typed, matches },
    });
  }
  throw new HoldfastError(code, `there is no ${what} ${JSON.stringify(typed)}`, {
    hint: `${didYouMean(typed, known)}List them: ${list}`,
    data: { typed },
  });
}
