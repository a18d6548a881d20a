/** A file into a store: read to its end and checked, compared with what is there, and only then written. */

import type { Journal } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import type { Head, StoredWrite, Write } from "../../store.ts";
import { Fold } from "./fold.ts";
import { checkFile, entriesOf, mustKnow, type PortableReport, type StreamLine } from "./lines.ts";
import { hide, type Lives, liveThrough } from "./lives.ts";
import { planImport, type StreamPlan } from "./plan.ts";

/** So many sessions that are gone are made at once: a store syncs them together. */
const AT_ONCE = 32;

export interface ImportReport extends PortableReport {
  /** How many of its writes were not there before. */
  readonly added: number;
}

/** What takes it in is opened, and made if need be, only once the file has proven good. */
export async function importFrom(into: () => Promise<Journal>, file: string): Promise<ImportReport> {
  const { streams, writes } = await checkFile(file);
  const journal = await into();
  const plan = await planImport(journal, file);
  let artifacts = 0;
  let added = 0;
  let current: Arriving | null = null;
  const hidden: Arriving[] = [];
  const gone: [stream: string, lives: Lives][] = [];
  for await (const { line, content } of entriesOf(file)) {
    if ("artifact" in line) {
      artifacts += 1;
      await journal.putArtifact(content as Uint8Array);
    } else if ("stream" in line) {
      current = await Arriving.begin(journal, file, line, plan.get(line.stream));
      if (line.hidden) hidden.push(current);
    } else if ("write" in line && current) {
      if (await current.take({ ...line.write, payload: content ?? "" })) added += 1;
    } else if ("gone" in line) {
      const lives = plan.get(line.gone)?.lives;
      if (lives) gone.push([line.gone, lives]);
    }
  }
  for (let at = 0; at < gone.length; at += AT_ONCE) {
    const some = gone.slice(at, at + AT_ONCE);
    await Promise.all(some.map(([stream, lives]) => liveThrough(journal, stream, lives)));
  }
  for (const { stream, head } of hidden.reverse()) await hide(journal, stream, head);
  return { file, streams, writes, added, artifacts, left: [] };
}

/** One stream on its way in. */
class Arriving {
  readonly stream: string;
  private readonly journal: Journal;
  private readonly file: string;
  private readonly plan: StreamPlan | undefined;
  private readonly fold: Fold;
  private readonly generation: number;
  private seq: number;
  /** Of the stream that it shares its past with, for its first write. */
  private fork: Write["fork"];

  private constructor(
    journal: Journal,
    file: string,
    { stream, base }: StreamLine,
    plan: StreamPlan | undefined,
    past: { readonly fold: Fold; readonly generation: number; readonly fork: Write["fork"] },
  ) {
    this.journal = journal;
    this.file = file;
    this.stream = stream;
    this.seq = base;
    this.plan = plan;
    this.fold = past.fold;
    this.generation = past.generation;
    this.fork = past.fork;
  }

  static async begin(
    journal: Journal,
    file: string,
    line: StreamLine,
    plan: StreamPlan | undefined,
  ): Promise<Arriving> {
    const { stream, parent, base } = line;
    if (plan?.lives) await liveThrough(journal, stream, plan.lives);
    const { generation } = (await journal.row(stream)).head;
    const fold = await Fold.at(journal, mustKnow(stream), parent, base);
    const from = parent === null ? null : (await journal.row(parent)).head;
    const fork =
      from && parent !== null ? { stream: parent, generation: from.generation, seq: base } : undefined;
    return new Arriving(journal, file, line, plan, { fold, generation, fork });
  }

  get head(): Head {
    return { generation: this.generation, seq: this.seq };
  }

  /** False where that very write was there already. */
  async take(stored: StoredWrite): Promise<boolean> {
    const { journal, stream, fork } = this;
    const { namespace } = journal;
    const change = this.fold.add(journal, stream, stored);
    const write: Write = {
      ...change,
      ...this.keysOf(change),
      stream,
      expect: { generation: this.generation, seq: stored.first - 1 },
      count: stored.last - stored.first + 1,
      payload: stored.payload,
      codec: stored.codec,
      sum: stored.sum,
      at: stored.at,
      ...(fork && { fork }),
    };
    this.fork = undefined;
    this.seq = stored.last;
    const outcome = await journal.store.append({ id: stored.batch, namespace, writes: [write] });
    if (outcome.outcome === "ok") return !outcome.resent;
    throw new HoldfastError(
      "STREAM_BUSY",
      `${stream} of ${this.file} cannot be taken in: this store was changed meanwhile (${outcome.outcome})`,
      {
        hint: "Stop whoever works on it, and import again: what has come already stays, and the rest follows.",
        data: { stream, outcome: outcome.outcome },
      },
    );
  }

  /**
   * Streams do not come in the order in which they were written, so a key that one let go of may be another's already. And
   * one that an earlier life of the stream holds here is its own.
   */
  private keysOf({
    claims = [],
    releases = [],
  }: Pick<Write, "claims" | "releases">): Required<Pick<Write, "claims" | "releases">> {
    const claimed = claims.filter(({ key }) => !this.plan?.freed.has(key));
    const released = releases.filter((key) => !this.plan?.kept.has(key));
    return { claims: claimed, releases: [...released, ...claimed.map(({ key }) => key)] };
  }
}
