/**
 * Compares acknowledgements with a store: every acknowledged append is there and unchanged. There is no gap
 * and no half batch, tokens only grow, removed streams are gone, and `check` finds nothing.
 */

import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import type { Acknowledgement } from "./acknowledgements.ts";
import { digest, type Note, tallyKind } from "./tally.ts";

type Streams = ReadonlyMap<string, readonly Note[]>;

export async function verify(store: Store, said: readonly Acknowledgement[]): Promise<string[]> {
  const journal = new Journal({ store });
  const problems = (await store.check()).map(
    ({ invariant, where, what }) => `${invariant}: ${where}: ${what}`,
  );
  if (problems.length > 0) return problems;
  const streams = new Map<string, Note[]>();
  for (const name of await streamNames(journal)) {
    const notes: Note[] = [];
    streams.set(name, notes);
    for await (const [seq, event] of journal.events(name)) {
      if (seq !== notes.length + 1) problems.push(`${name}: event ${seq} follows event ${notes.length}`);
      notes.push(event.data as Note);
    }
    for (const { where, what } of await journal.check(tallyKind, name))
      problems.push(`I10: ${where}: ${what}`);
  }
  problems.push(...halfBatches(streams), ...lostAppends(streams, said));
  problems.push(...(await lostArtifacts(journal, said)));
  problems.push(...(await lostClaims(journal, said)));
  problems.push(...(await backwardTokens(journal, said)));
  return problems;
}

async function streamNames(journal: Journal): Promise<string[]> {
  const names: string[] = [];
  let cursor: string | null | undefined;
  do {
    const from = cursor ? { cursor } : {};
    const page = await journal.list<"streams">({ of: "streams", kind: "tally", limit: 500, ...from });
    names.push(...page.rows.map((row) => row.stream));
    cursor = page.cursor;
  } while (cursor);
  return names;
}

function halfBatches(streams: Streams): string[] {
  const seen = new Map<string, { size: number; count: number }>();
  for (const notes of streams.values()) {
    for (const { batch, size } of notes) {
      seen.set(batch, { size, count: (seen.get(batch)?.count ?? 0) + 1 });
    }
  }
  return [...seen]
    .filter(([, { size, count }]) => size !== count)
    .map(([batch, { size, count }]) => `half batch: ${batch} has ${count} of ${size} events`);
}

function lostAppends(streams: Streams, said: readonly Acknowledgement[]): string[] {
  const removing = new Set(said.map((each) => (each.of === "removing" ? each.stream : "")));
  const problems: string[] = [];
  for (const each of said) {
    if (each.of === "removed" && streams.has(each.stream))
      problems.push(`removed, but there: ${each.stream}`);
    if (each.of !== "append") continue;
    for (const { stream, last, digests } of each.writes) {
      const notes = streams.get(stream);
      if (!notes && removing.has(stream)) continue;
      const kept = notes?.slice(last - digests.length, last) ?? [];
      if (kept.length < digests.length) problems.push(`lost: ${each.batch}, ${stream} up to ${last}`);
      else if (kept.some((note, index) => digest(note) !== digests[index])) {
        problems.push(`changed: ${each.batch}, ${stream} up to ${last}`);
      }
    }
  }
  return problems;
}

async function lostArtifacts(journal: Journal, said: readonly Acknowledgement[]): Promise<string[]> {
  const problems: string[] = [];
  for (const each of said) {
    if (each.of !== "artifact") continue;
    await journal.getArtifact(each.hash).catch((error: Error) => problems.push(`lost: ${error.message}`));
  }
  return problems;
}

async function lostClaims(journal: Journal, said: readonly Acknowledgement[]): Promise<string[]> {
  const claims = said.filter((each) => each.of === "claim");
  const { rows } = await journal.list<"keys">({ of: "keys", keys: claims.map(({ key }) => key) });
  const holders = new Map(rows.map(({ key, stream, seq }) => [key, `${stream} ${seq}`]));
  return claims
    .filter(({ key, stream, seq }) => holders.get(key) !== `${stream} ${seq}`)
    .map(({ key }) => `lost: claim of ${key}, now ${holders.get(key) ?? "free"}`);
}

/** Every change of owner raises the token, and a granted token is never reused (I7). */
async function backwardTokens(journal: Journal, said: readonly Acknowledgement[]): Promise<string[]> {
  const problems: string[] = [];
  const tokens = new Map<string, number>();
  for (const each of said) {
    if (each.of !== "lease") continue;
    const before = tokens.get(each.name) ?? 0;
    if (each.token <= before) problems.push(`I7: ${each.name}: token ${each.token} after ${before}`);
    tokens.set(each.name, each.token);
  }
  const { rows } = await journal.list<"leases">({ of: "leases", limit: 1_000 });
  for (const [name, token] of tokens) {
    const now = rows.find((row) => row.name === name)?.token ?? 0;
    if (now < token) problems.push(`I7: ${name}: its token is ${now}, but ${token} was granted`);
  }
  return problems;
}
