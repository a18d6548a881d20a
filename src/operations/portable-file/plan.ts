/**
 * What taking in a file comes to in one store, found out before anything is written: whatever cannot be taken in is
 * refused here, so that nothing is left half there. For each stream of the file:
 *
 *     not here            its writes are appended, in the life that it has in the file
 *     here, a part of it  the rest is appended
 *     here, and more      nothing is to be done
 *     here, another one   refused
 *     removed here since  it comes back as a life of its own; with open calls it would not be known again by what these
 *                         have begun elsewhere, and is refused
 *
 * Keys that are held here by the stream's own name are its own. What an earlier life claimed stays claimed.
 */

import type { Journal } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import type { KeyRow, ReadPage, StoredWrite, StreamRow } from "../../store.ts";
import { type EndsLine, type GoneLine, type KeyAt, linesOf, type StreamLine } from "./lines.ts";
import { type Lives, rowOf } from "./lives.ts";

export interface StreamPlan {
  readonly lives: Lives | null;
  /** Keys that the stream has let go of by the end of the file: it does not claim them … */
  readonly freed: ReadonlySet<string>;
  /** … nor let go of those that another life of it holds here. */
  readonly kept: ReadonlySet<string>;
}

/** Streams of which there is nothing to say are left out. */
export type Plan = ReadonlyMap<string, StreamPlan>;

const PAGE = 200;
/** Where no stream has a call: a key of another life that is put here is not taken for that of a call in this one. */
const NO_CALL = 1;

export async function planImport(journal: Journal, file: string): Promise<Plan> {
  const plan = new Map<string, StreamPlan>();
  let current: Present | null = null;
  for await (const line of linesOf(file)) {
    if ("stream" in line) current = await Present.find(journal, file, line);
    else if ("write" in line) await current?.meet(line.write);
    else if ("ends" in line && current) {
      const found = await current.plan(line);
      if (found.lives || found.freed.size > 0) plan.set(current.stream, found);
    } else if ("gone" in line) {
      const lives = await livesOfGone(journal, file, line);
      if (lives) plan.set(line.gone, { lives, freed: new Set(), kept: new Set() });
    }
  }
  return plan;
}

/** What is here of a stream of the file, read along with it. */
class Present {
  private readonly journal: Journal;
  private readonly file: string;
  private readonly line: StreamLine;
  private readonly row: StreamRow;
  private page: ReadPage;
  private place = 0;
  private hasNew = false;

  private constructor(journal: Journal, file: string, line: StreamLine, page: ReadPage) {
    this.journal = journal;
    this.file = file;
    this.line = line;
    this.row = page.stream;
    this.page = page;
  }

  static async find(journal: Journal, file: string, line: StreamLine): Promise<Present> {
    await rowOf(journal, line.stream);
    return new Present(journal, file, line, await readFrom(journal, line.stream, 0));
  }

  get stream(): string {
    return this.line.stream;
  }

  async meet(write: Omit<StoredWrite, "payload">): Promise<void> {
    const here = await this.next();
    if (!here) {
      this.hasNew = true;
      if (this.row.state === "hidden") throw refused(this.file, this.stream, "it was removed here");
      return;
    }
    if (here.batch === write.batch && here.first === write.first && here.last === write.last) return;
    throw refused(this.file, this.stream, "this store has something else under that name");
  }

  async plan({ openCalls, held, freed, before }: EndsLine): Promise<StreamPlan> {
    const { stream, file } = this;
    const holders = await holdersOf(this.journal, [...held, ...freed, ...before]);
    const other =
      this.hasNew && held.map(([key]) => holders.get(key)).find((by) => by && by.stream !== stream);
    if (other) throw refused(file, stream, `a key that it has claimed is held by ${other.stream} here`);
    const kept = new Set(
      freed.map(([key]) => key).filter((key) => this.isOfOtherLife(holders.get(key), freed)),
    );
    const parted = [...kept].filter((key) => holders.get(key)?.seq !== NO_CALL);
    const keys = [...unheld(before, holders), ...parted.map((key) => [key, NO_CALL] as const)];
    const lives = this.livesBefore(keys, openCalls);
    return { lives, freed: new Set(freed.map(([key]) => key)), kept };
  }

  private isOfOtherLife(by: KeyRow | undefined, freed: readonly KeyAt[]): boolean {
    if (by?.stream !== this.stream) return false;
    return this.row.state === "gone" || !freed.some(([key, seq]) => key === by.key && seq === by.seq);
  }

  private livesBefore(keys: readonly KeyAt[], openCalls: number): Lives | null {
    const { row, file, stream, line } = this;
    if (streamKind(stream) !== "session") return null;
    if (row.state !== "gone") {
      if (keys.length > 0) throw refused(file, stream, "it is here without the keys of its earlier lives");
      return null;
    }
    const from = row.head.generation;
    const to = Math.max(from + Number(keys.length > 0), line.generation);
    if (to !== line.generation && openCalls > 0) {
      throw refused(file, stream, "it was removed here since, and has calls without an outcome in that file");
    }
    return from < to ? { from, to, keys } : null;
  }

  private async next(): Promise<StoredWrite | null> {
    const here = this.page.writes[this.place];
    if (here) {
      this.place += 1;
      return here;
    }
    const last = this.page.writes.at(-1);
    if (!this.page.more || !last) return null;
    this.page = await readFrom(this.journal, this.stream, last.last);
    this.place = 0;
    return this.next();
  }
}

function readFrom({ store, namespace }: Journal, stream: string, after: number): Promise<ReadPage> {
  return store.read({ namespace, stream, after, limit: PAGE });
}

async function livesOfGone(
  journal: Journal,
  file: string,
  { gone: stream, generation, before }: GoneLine,
): Promise<Lives | null> {
  const row = await rowOf(journal, stream);
  const keys = unheld(before, await holdersOf(journal, before));
  const here = row.head.generation;
  if (row.state !== "gone") {
    // Removed here, too, it gets the life after this one.
    if (keys.length === 0 && here + 1 >= generation) return null;
    throw refused(file, stream, "it was removed where the file comes from, and is still here");
  }
  const to = Math.max(here + Number(keys.length > 0), generation);
  return here < to ? { from: here, to, keys } : null;
}

type Holders = ReadonlyMap<string, KeyRow>;

async function holdersOf(journal: Journal, keys: readonly KeyAt[]): Promise<Holders> {
  const holders = new Map<string, KeyRow>();
  for (let at = 0; at < keys.length; at += PAGE) {
    const asked = keys.slice(at, at + PAGE).map(([key]) => key);
    for (const row of (await journal.list<"keys">({ of: "keys", keys: asked })).rows)
      holders.set(row.key, row);
  }
  return holders;
}

function unheld(keys: readonly KeyAt[], holders: Holders): readonly KeyAt[] {
  return keys.filter(([key]) => !holders.has(key));
}

function refused(file: string, stream: string, why: string): HoldfastError {
  return new HoldfastError("STREAM_EXISTS", `${stream} of ${file} cannot be taken in: ${why}`, {
    hint: "Nothing was written. Import into a store of its own: --store ./other.db",
    data: { stream, why },
  });
}
