// Event files as an attacker writes them: sound in form, with any content.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "../../src/model/digest.ts";
import { type Entry, entryUid } from "../../src/model/goal/index.ts";
import { canonicalOf, type Json } from "../../src/model/json.ts";

export const BY = { name: "mallory", role: "human" } as const;

type Part = Partial<Omit<Entry, "data">> & { readonly data?: object };

/** An entry with a uid that fits, unless `change` names another one. */
export function forge(change: Part = {}, goal = "checkout"): Entry {
  const at = Date.UTC(2026, 0, 3);
  const fact = { by: BY, key: "k", value: 1, source: "s", expiresAt: null };
  const base = { at, t: at, c: 0, refs: {}, type: "fact.set", v: 1, data: fact as object };
  const entry = { ...base, ...change } as unknown as Entry;
  return { ...entry, uid: change.uid ?? entryUid(goal, entry) };
}

export const lineOf = (entry: object): string => canonicalOf(entry as Json);

export const headOf = (goal: string, events: number): string =>
  canonicalOf({ events, format: 2, goal, holdfast: "goal events" });

export const nameOf = (text: string): string => `${sha256(text).slice(0, 32)}.jsonl`;

export function fileOf(entries: readonly Entry[], goal = "checkout"): { name: string; text: string } {
  const text = `${[headOf(goal, entries.length), ...entries.map(lineOf)].join("\n")}\n`;
  return { name: nameOf(text), text };
}

/** Puts a file into the events of a clone, as a pull does; returns its name. */
export function plant({ root }: { readonly root: string }, entries: readonly Entry[], goal?: string): string {
  const { name, text } = fileOf(entries, goal);
  writeFileSync(join(root, ".planning/events", name), text);
  return name;
}
