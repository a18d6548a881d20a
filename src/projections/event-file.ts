/**
 * One file of events, as text: a line that says what it is, then a line for each event, in the order of all copies.
 *
 * Its name is the hash of its content. So one name never has two contents, whichever branch or worktree writes it, and a
 * file that was torn, cut or changed does not fit its name. Everything in it is checked before any of it is believed.
 */

import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { compareEntries, type Entry, entrySchema, goalKind, MERGED } from "../model/goal/index.ts";
import { canonicalOf, type Json } from "../model/json.ts";
import { makeEvent } from "../model/stream/index.ts";
import { parseJson, UnreadableText } from "../state-files/index.ts";
import { normalText } from "./seal.ts";

const FORMAT = 1;
const NAME_CHARACTERS = 32;
export const EVENT_FILE = /^[0-9a-f]{32}\.jsonl$/;

export interface EventFile {
  readonly name: string;
  readonly text: string;
}

/** An event and the line that says it: the same line in whichever file it stands. */
export interface EntryLine {
  readonly entry: Entry;
  readonly line: string;
}

export function lineOf(entry: Entry): EntryLine {
  return { entry, line: canonicalOf(entry as unknown as Json) };
}

/** Each event once, whichever of the lines said it first. */
export function makeEventFile(goal: string, lines: Iterable<EntryLine>): EventFile {
  const once = new Map<string, EntryLine>();
  for (const each of lines) if (!once.has(each.entry.uid)) once.set(each.entry.uid, each);
  const order = [...once.values()].sort((a, b) => compareEntries(a.entry, b.entry));
  const head = canonicalOf({ holdfast: "goal events", format: FORMAT, goal, events: order.length });
  const text = `${[head, ...order.map(({ line }) => line)].join("\n")}\n`;
  return { name: nameOf(text), text };
}

function nameOf(text: string): string {
  return `${sha256(text).slice(0, NAME_CHARACTERS)}.jsonl`;
}

export interface ReadEvents {
  readonly goal: string;
  readonly lines: readonly EntryLine[];
}

/** Of which goal a file is, if it is whole; its events are not looked at. */
export function goalOfEvents(name: string, raw: string): string | null {
  const text = normalText(raw);
  if (nameOf(text) !== name) return null;
  try {
    const { goal } = parseJson(text.slice(0, text.indexOf("\n")));
    return typeof goal === "string" ? goal : null;
  } catch (error) {
    if (error instanceof UnreadableText) return null;
    throw error;
  }
}

/** Throws `UnreadableText`, saying which line is wrong and why. */
export function readEventFile(name: string, raw: string): ReadEvents {
  const text = normalText(raw);
  if (nameOf(text) !== name) {
    throw new UnreadableText("its content does not fit its name: it was cut, or somebody changed it");
  }
  const [first = "", ...rest] = text.slice(0, -1).split("\n");
  const head = parseJson(first);
  const { goal, events } = head;
  if (head["holdfast"] !== "goal events" || typeof goal !== "string")
    throw new UnreadableText("it holds no events");
  if (typeof head["format"] !== "number" || head["format"] > FORMAT) {
    throw new UnreadableText("a later release wrote it: upgrade holdfast");
  }
  if (events !== rest.length)
    throw new UnreadableText(`it should hold ${String(events)} events, not ${rest.length}`);
  const seen = new Set<string>();
  const lines = rest.map((line, index) => {
    const entry = readLine(line, index + 2);
    if (seen.has(entry.uid))
      throw new UnreadableText(`line ${index + 2}: event ${entry.uid} stands there twice`);
    seen.add(entry.uid);
    return { entry, line };
  });
  return { goal, lines };
}

function readLine(line: string, number: number): Entry {
  try {
    const parsed = entrySchema.safeParse(parseJson(line));
    if (!parsed.success) throw new UnreadableText(parsed.error.issues[0]?.message ?? "it is no event");
    const entry = parsed.data;
    if (canonicalOf(entry as unknown as Json) !== line)
      throw new UnreadableText("it is not written as events are");
    checkEvent(entry);
    return entry;
  } catch (error) {
    if (!(error instanceof UnreadableText) && !(error instanceof HoldfastError)) throw error;
    throw new UnreadableText(`line ${number}: ${error.message}`, { cause: error });
  }
}

/** Against the schema of its type. An older version is checked when it has become the current one. */
function checkEvent({ type, v, at, uid, data }: Entry): void {
  const spec = Object.hasOwn(goalKind.events, type)
    ? goalKind.events[type as keyof typeof goalKind.events]
    : undefined;
  if (!spec || type === MERGED || v > spec.version) {
    throw new UnreadableText(
      `this release knows no event ${JSON.stringify(type)} of version ${v}: upgrade holdfast`,
    );
  }
  if (Object.hasOwn(data, "uid")) throw new UnreadableText("its data holds a second uid");
  if (v === spec.version) makeEvent(goalKind, { type, data: { ...data, uid } }, at);
}
