/**
 * Whether anything has happened in a session or with its sub-agents: something was said, begun or settled, or a person has
 * spoken. Whoever takes a session, looks at its open calls and lets go of it again writes, too; that by itself is nothing new,
 * however often.
 */

import type { Journal } from "../journal/index.ts";
import type { Event } from "../model/stream/index.ts";
import type { StreamRow } from "../store.ts";
import { withSubAgents } from "./sub-agents.ts";

const NO_NEWS: readonly string[] = [
  "session.taken",
  "session.described",
  "budget.reserved",
  "call.lost",
  "call.verified",
  "call.waiting",
];

function isNews({ type, data }: Event): boolean {
  const { attempt = 1, lost = false } = data as { attempt?: number; lost?: boolean };
  if (type === "call.issued") return attempt === 1;
  if (type === "budget.settled") return !lost;
  return !NO_NEWS.includes(type);
}

/** How far each of the logs had come. */
export type Places = ReadonlyMap<string, number>;

export class SessionNews {
  readonly #journal: Journal;
  /** Up to where a log has been read, and where the latest news in it stands. */
  readonly #read = new Map<string, { life: number; seq: number; news: number }>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  async places(session: string): Promise<Places> {
    const members = await withSubAgents(this.#journal, session);
    return new Map(members.map(({ row }) => [row.stream, row.head.seq]));
  }

  async hasComeBehind(session: string, places: Places): Promise<boolean> {
    for (const { row } of await withSubAgents(this.#journal, session)) {
      const events = this.#journal.events(row.stream, places.get(row.stream) ?? 0);
      for await (const [, event] of events) if (isNews(event)) return true;
    }
    return false;
  }

  /** The same, by places that were recorded. Times would not do: those who write have clocks of their own. */
  async hasComeSince(session: string, places: Readonly<Record<string, number>>): Promise<boolean> {
    for (const { row } of await withSubAgents(this.#journal, session)) {
      const place = places[row.stream] ?? 0;
      if (row.head.seq > place && (await this.#latestNews(row, place)) > place) return true;
    }
    return false;
  }

  /** Every look asks this of what loops, for days maybe: what was read once is not read again. */
  async #latestNews({ stream, head }: StreamRow, from: number): Promise<number> {
    const known = this.#read.get(stream);
    const read = known?.life === head.generation ? known : { life: head.generation, seq: from, news: 0 };
    this.#read.set(stream, read);
    for await (const [seq, event] of this.#journal.events(stream, read.seq)) {
      read.seq = seq;
      if (isNews(event)) read.news = seq;
    }
    return read.news;
  }
}
