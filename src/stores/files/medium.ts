/**
 * The folder through one handle, which is replaced after an I/O error.
 *
 *     sound ──error while reading or writing──▶ poisoned ──next use: opened anew and proven──▶ sound
 *       │                                          └──cannot be proven──▶ poisoned, and the caller is told
 *       └──another folder, or another store in it──▶ refused, for good (I12)
 *
 * Nothing is acknowledged while poisoned (I13). Proving means that the tail was judged and a line was synced.
 */

import { v7 as uuid } from "uuid";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { closedError } from "../kit/index.ts";
import { commit, settle, Turn } from "./append.ts";
import { storeError } from "./failures.ts";
import { patiently } from "./lock.ts";
import type { OpenedFolder, Place } from "./opened-folder.ts";
import { openFolder } from "./opening.ts";
import { rewriteAndErase, rewriteIfRoom } from "./rewriting.ts";
import type { State, Touched } from "./state.ts";

/** How often a reader that meets a rewritten journal starts again. */
const TRIES = 5;

export class Medium {
  readonly place: Place;
  readonly #touched: Touched;
  #folder: OpenedFolder;
  readonly #store: string;
  /** Tells this handle from others. */
  readonly #name = uuid();
  #isPoisoned = false;
  #refusal: Error | null = null;
  #reopening: Promise<void> | null = null;
  /** After rewriting failed for want of space it is not tried again before this much is of no use. */
  #rewriteAgainAt = 0;

  constructor(folder: OpenedFolder, touched: Touched) {
    this.place = folder.place;
    this.#folder = folder;
    this.#store = folder.journal.store;
    this.#touched = touched;
  }

  /** Whether the folder can be used at once, or `ready` must be awaited first. Throws once refused. */
  get isSound(): boolean {
    if (this.#refusal) throw this.#refusal;
    return !this.#isPoisoned;
  }

  /** Whether somebody else waits for the lock. */
  get isAwaited(): boolean {
    if (this.#isPoisoned || this.#refusal) return false;
    try {
      return this.#folder.live?.isAwaited(this.#name) === true;
    } catch {
      // Courtesy only. Whoever takes the lock next looks at the same file and is told what is wrong.
      return false;
    }
  }

  setWaiting(): void {
    this.#folder.live?.setWaiting(this.#name);
  }

  clearWaiting(): void {
    this.#folder.live?.clearWaiting(this.#name);
  }

  /** Takes the lock and settles; null while others have it. */
  begin(): Turn | null {
    const { lock } = this.#folder;
    if (!lock?.take()) return null;
    try {
      settle(this.#folder);
      return new Turn(this.#folder);
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Makes durable what the turn holds, and lets go of the lock. `begun`: from here on it may have happened. */
  end(turn: Turn, begun: () => void): void {
    try {
      commit(turn, begun);
      if (turn.mustErase) rewriteAndErase(this.#folder);
      else if (this.#folder.isWasteful) this.#rewrite();
    } finally {
      this.release();
    }
  }

  release(): void {
    this.#folder.lock?.release();
  }

  #rewrite(): void {
    const { dead } = this.#folder.state;
    if (dead >= this.#rewriteAgainAt && !rewriteIfRoom(this.#folder)) this.#rewriteAgainAt = dead * 2;
  }

  /** From here on every use fails with this error. */
  refuse(error: Error): Error {
    this.#refusal ??= error;
    return this.#refusal;
  }

  /** After an error this handle acknowledges nothing more. Returns the error to hand out. */
  poison(cause: unknown, unknown: boolean): Error {
    this.#isPoisoned = true;
    const error = storeError(this.place.folder, cause, unknown);
    if (error.code === "STORE_REPLACED") this.refuse(error);
    return error;
  }

  /** Resolves when there is a handle that has proven itself. */
  async ready(): Promise<void> {
    if (this.isSound) return;
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = null;
    });
    await this.#reopening;
  }

  async #reopen(): Promise<void> {
    try {
      await this.#letGo();
      this.#folder = await openFolder(this.place, this.#touched, this.#store);
      if (!this.place.readOnly) await this.#prove();
      this.#isPoisoned = false;
    } catch (error) {
      const told = storeError(this.place.folder, error);
      throw told.code === "STORE_REPLACED" ? this.refuse(told) : told;
    }
  }

  /** One line must go all the way to the disk. */
  async #prove(): Promise<void> {
    let turn: Turn | null = null;
    await patiently(this.place.folder, this.place.busyMs, () => {
      turn = this.begin();
      return turn !== null;
    });
    const held = turn as unknown as Turn;
    held.log({ do: "proof" });
    this.end(held, () => undefined);
  }

  /** Reads memory after taking in what others have made durable. */
  async read<Result>(act: (state: State, folder: OpenedFolder) => Result): Promise<Result> {
    for (let tries = 1; ; tries++) {
      if (!this.isSound) await this.ready();
      const folder = this.#folder;
      const { journal } = folder;
      try {
        folder.catchUp();
        const result = act(folder.state, folder);
        // A journal that was erased meanwhile may have been read as zeros.
        if (folder.journal.isInPlace() || tries >= TRIES) return result;
      } catch (error) {
        if (tries < TRIES && isHoldfastError(error, "STORE_CORRUPT") && !journal.isInPlace()) continue;
        if (error instanceof HoldfastError && !isOfTheMedium(error)) throw error;
        throw this.poison(error, false);
      }
    }
  }

  async close(): Promise<void> {
    this.refuse(closedError({ path: this.place.folder }));
    await this.#reopening?.catch(() => undefined);
    if (!this.#isPoisoned && !this.place.readOnly) syncMark(this.#folder);
    await this.#letGo();
  }

  #isLetGo: OpenedFolder | null = null;

  /** Closes the handle once, however often it is asked. */
  async #letGo(): Promise<void> {
    const folder = this.#folder;
    if (this.#isLetGo === folder) return;
    this.#isLetGo = folder;
    folder.close();
    await folder.lock?.close();
  }
}

/** A mark that outlives a power cut tells a torn tail from damage; the store can do without. */
function syncMark({ live }: OpenedFolder): void {
  try {
    live?.sync();
  } catch {
    // Everything acknowledged is synced in the journal; whoever opens it next reads on behind an older mark.
  }
}

function isOfTheMedium({ code }: HoldfastError): boolean {
  return code === "STORE_REPLACED" || code === "STORE_CORRUPT" || code === "STORE_IO";
}
