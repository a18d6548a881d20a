/**
 * Live changes as server-sent events. An event names the streams that changed; the page asks again for what
 * it shows. So a lost or doubled event costs a request and nothing else.
 *
 *     event: change   streams with a new head, or whose process was taken, released or found dead
 *     event: reset    ask again for everything: the reader's `Last-Event-ID` is too old or of another start
 *
 * A store's `watch` is only a hint, so a change is found by comparing the latest rows with the known heads.
 * A killed process writes nothing: its death shows in its lease, which is looked at once a second.
 */

import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import { isProvablyDead } from "../journal/index.ts";
import type { Holdfast } from "../open.ts";
import type { LeaseRow } from "../store.ts";

const MAX_STREAMS = 16;
const KEPT = 1_000;
const ROWS = 100;
const MAX_ROWS = 500;
const LEASES = 1_000;
const GATHER_MS = 40;
const LOOK_MS = 1_000;
const LEASES_EVERY = 5;
const HEARTBEAT_MS = 15_000;

interface Change {
  readonly number: number;
  readonly streams: readonly string[];
}

export class LiveFeed {
  private readonly holdfast: Holdfast;
  private readonly warn: (error: unknown) => void;
  private readonly start = randomBytes(6).toString("hex");
  private readonly readers = new Set<ServerResponse>();
  private readonly changes: Change[] = [];
  private readonly heads = new Map<string, string>();
  private readonly holders = new Map<string, string>();
  private number = 0;
  private looks = 0;
  private stopWatching: (() => void) | null = null;
  private timers: NodeJS.Timeout[] = [];
  private gathering: NodeJS.Timeout | null = null;
  private reading: Promise<void> = Promise.resolve();

  constructor(holdfast: Holdfast, warn: (error: unknown) => void) {
    this.holdfast = holdfast;
    this.warn = warn;
  }

  get isFull(): boolean {
    return this.readers.size >= MAX_STREAMS;
  }

  /** Adds a reader. `lastId` is the last event that it has, from an earlier connection. */
  async add(response: ServerResponse, lastId: string | undefined): Promise<void> {
    this.readers.add(response);
    response.on("close", () => this.remove(response));
    if (this.stopWatching === null) await this.begin();
    const missed = this.since(lastId);
    if (missed === null) response.write(this.frame("reset", this.number, []));
    else for (const { number, streams } of missed) response.write(this.frame("change", number, streams));
  }

  close(): void {
    for (const reader of this.readers) reader.end();
    this.readers.clear();
    this.end();
  }

  private remove(response: ServerResponse): void {
    this.readers.delete(response);
    if (this.readers.size === 0) this.end();
  }

  /** The changes after an id; null if they are not known any more. A new reader has missed nothing. */
  private since(lastId: string | undefined): readonly Change[] | null {
    if (lastId === undefined || lastId === "") return [];
    const [start, number] = lastId.split(".");
    const first = this.changes[0]?.number ?? this.number + 1;
    if (start !== this.start || Number(number) + 1 < first) return null;
    return this.changes.filter((change) => change.number > Number(number));
  }

  private frame(event: string, number: number, streams: readonly string[]): string {
    return `id: ${this.start}.${number}\nevent: ${event}\ndata: ${JSON.stringify({ streams })}\n\n`;
  }

  private async begin(): Promise<void> {
    this.stopWatching = this.holdfast.journal.watch(null, () => this.gather());
    this.timers = [
      setInterval(() => this.look(), LOOK_MS),
      setInterval(() => this.send(": still here\n\n"), HEARTBEAT_MS),
    ];
    // The first look learns what there is.
    await this.update(true);
  }

  private end(): void {
    this.stopWatching?.();
    this.stopWatching = null;
    for (const timer of this.timers) clearInterval(timer);
    if (this.gathering) clearTimeout(this.gathering);
    this.gathering = null;
  }

  private send(text: string): void {
    for (const reader of this.readers) reader.write(text);
  }

  private gather(): void {
    this.gathering ??= setTimeout(() => {
      this.gathering = null;
      void this.update(true);
    }, GATHER_MS);
  }

  private look(): void {
    this.looks += 1;
    void this.update(this.looks % LEASES_EVERY === 0);
  }

  /** Updates run one after another: two at once would report a change twice, or out of order. */
  private update(withStore: boolean): Promise<void> {
    const doUpdate = async (): Promise<void> => {
      const streams = new Set(withStore ? await this.newHeads() : []);
      for (const stream of withStore ? await this.newHolders() : this.newDead()) streams.add(stream);
      if (streams.size > 0 && this.stopWatching) this.publish([...streams]);
    };
    this.reading = this.reading.then(doUpdate).catch(this.warn);
    return this.reading;
  }

  private publish(streams: readonly string[]): void {
    this.number += 1;
    this.changes.push({ number: this.number, streams });
    if (this.changes.length > KEPT) this.changes.shift();
    this.send(this.frame("change", this.number, streams));
  }

  private async newHeads(): Promise<string[]> {
    const changed: string[] = [];
    let from = {};
    for (let read = 0; read < MAX_ROWS; ) {
      const { rows, cursor } = await this.holdfast.journal.list<"streams">({
        of: "streams",
        limit: ROWS,
        ...from,
      });
      const before = changed.length;
      for (const { stream, head } of rows) {
        const mark = `${head.generation}.${head.seq}`;
        if (this.heads.get(stream) !== mark) changed.push(stream);
        this.heads.set(stream, mark);
      }
      read += rows.length;
      // The latest come first, so after a page without news the rest is known.
      if (cursor === null || changed.length === before) break;
      from = { cursor };
    }
    return changed;
  }

  private known: readonly LeaseRow[] = [];

  private async newHolders(): Promise<string[]> {
    const asked = { of: "leases", limit: LEASES } as const;
    const { rows } = await this.holdfast.journal.list<"leases">(asked);
    this.known = rows.filter(({ holder }) => holder !== null);
    const gone = [...this.holders.keys()].filter((name) => !this.known.some((row) => row.name === name));
    for (const name of gone) this.holders.delete(name);
    return [...gone, ...this.newDead()];
  }

  private newDead(): string[] {
    return this.known.flatMap(({ name, token, holder, remainingMs }) => {
      const state = holder && isProvablyDead(holder) ? "dead" : remainingMs > 0 ? "held" : "expired";
      const mark = `${token} ${state}`;
      if (this.holders.get(name) === mark) return [];
      this.holders.set(name, mark);
      return [name];
    });
  }
}
