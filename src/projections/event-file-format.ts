/**
 * The format of a file of events, and the checks that every line of one passes before it is merged. Anyone
 * who can push a commit can write such a file, so nothing in it is believed:
 *
 * | check | against |
 * |---|---|
 * | the name is the hash of the content | a file that was cut or changed |
 * | a uid is the hash of its entry and goal (`entryUid`) | other content under a known uid |
 * | ids, names, times and numbers have bounds (`event-schemas.ts`) | values that end a series or a goal |
 * | `t` is at most a day ahead of the reader's clock | a clock that all later events would have to follow |
 * | one goal per file, and `goal.created` is of that goal | a goal that appears inside another |
 * | a line has at most 1,000,000 characters | texts that take long to parse |
 * | a line begins and ends as every event does, before it is parsed | thousands of lines that are no events |
 *
 * Messages hold no text of the file: they reach the terminal, the log and the briefing of an agent.
 *
 * A file has a header line, then one line per event, sorted alike in every copy.
 */

import { sha256 } from "../model/digest.ts";
import { withoutStack } from "../model/errors.ts";
import type { Entry } from "../model/goal/index.ts";
import {
  checkEntry,
  compareEntries,
  entryText,
  entryTextAndUid,
  goalKind,
  isEntry,
  MERGED,
} from "../model/goal/index.ts";
import { canonicalOf } from "../model/json.ts";
import { isId } from "../model/names.ts";
import { isoTime } from "../model/time.ts";
import { parseJson, UnreadableText } from "../state-files/index.ts";
import { normalText } from "./seal.ts";

const FORMAT = 2;
const NAME_CHARACTERS = 32;
export const EVENT_FILE = /^[0-9a-f]{32}\.jsonl$/;
const LINE_CHARACTERS = 1_000_000;
const AHEAD_MS = 86_400_000;
/** Members are in canonical order, so an event has fixed ends. Both patterns read a few characters. */
const LINE_START = /^\{"at":\d{1,15},"c":\d{1,7},"data":\{/;
const LINE_END = /,"t":\d{1,15},"type":"[^"\\]{1,500}","uid":"[0-9a-f]{40}","v":\d{1,9}\}$/;
const END_CHARACTERS = 600;

/** The file is sound, but dated ahead of this clock: it is merged when its time has come. */
export class FutureEvents extends UnreadableText {
  readonly goal: string;
  readonly until: number;

  constructor(goal: string, latest: number) {
    const until = latest - AHEAD_MS;
    const merged = `merged from ${isoTime(until)} on`;
    super(`its events are dated more than a day ahead of this clock, so they are ${merged}`);
    this.goal = goal;
    this.until = until;
  }
}

/** The content fits the name, so the file cannot become valid. */
export class InvalidEvents extends UnreadableText {}

export interface EntryLine {
  readonly entry: Entry;
  readonly line: string;
}

export function lineOf(entry: Entry): EntryLine {
  return { entry, line: entryText(entry) };
}

export function makeEventFile(goal: string, lines: Iterable<EntryLine>): { name: string; text: string } {
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

/** The goal of a sound file; null if only reading it tells what is wrong. */
export function goalOfEvents(name: string, raw: string): string | null {
  const text = normalText(raw);
  if (nameOf(text) !== name) return null;
  try {
    return readHead(text.slice(0, text.indexOf("\n"))).goal;
  } catch (error) {
    if (error instanceof UnreadableText) return null;
    throw error;
  }
}

function readHead(line: string): { readonly goal: string; readonly events: unknown } {
  if (line.length > LINE_CHARACTERS) throw tooLong(1);
  const { holdfast, format, goal, events } = parsed(line);
  if (holdfast !== "goal events") throw new UnreadableText("it holds no events");
  if (typeof format !== "number" || format > FORMAT)
    throw new UnreadableText("a later release wrote it: upgrade holdfast");
  if (format < FORMAT)
    throw new UnreadableText("an earlier release wrote it, in a form that cannot be checked");
  if (!isId(goal)) throw new UnreadableText("line 1: its goal has no valid name");
  return { goal, events };
}

export function readEventFile(
  name: string,
  raw: string,
  now: number,
): { goal: string; lines: readonly EntryLine[] } {
  const text = normalText(raw);
  if (nameOf(text) !== name)
    throw new UnreadableText("its content does not fit its name: it was cut or changed");
  try {
    return readLines(text, now);
  } catch (error) {
    if (!(error instanceof UnreadableText) || error instanceof FutureEvents) throw error;
    throw withoutStack(() => new InvalidEvents(error.message, { cause: error.cause }));
  }
}

function readLines(text: string, now: number): { goal: string; lines: readonly EntryLine[] } {
  const headEnd = text.indexOf("\n");
  const { goal, events } = readHead(headEnd < 0 ? text : text.slice(0, headEnd));
  if (!text.endsWith("\n")) throw new UnreadableText("its last line does not end");
  const count = countLines(text) - 1;
  if (events !== count)
    throw new UnreadableText(`it holds ${count} events, and not as many as its first line says`);
  const seen = new Set<string>();
  const lines: EntryLine[] = [];
  let latest = 0;
  for (let from = headEnd + 1; from < text.length; ) {
    const to = text.indexOf("\n", from);
    const number = lines.length + 2;
    const line = text.slice(from, to);
    const entry = readLine(goal, line, number);
    if (seen.has(entry.uid)) throw new UnreadableText(`line ${number}: the event is there twice`);
    seen.add(entry.uid);
    latest = Math.max(latest, entry.t);
    lines.push({ entry, line });
    from = to + 1;
  }
  if (latest > now + AHEAD_MS) throw new FutureEvents(goal, latest);
  return { goal, lines };
}

/** Counts without an array of lines: the first bad line of a million ends the reading. */
function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

function readLine(goal: string, line: string, number: number): Entry {
  if (line.length > LINE_CHARACTERS) throw tooLong(number);
  if (!LINE_START.test(line) || !LINE_END.test(line.slice(-END_CHARACTERS)))
    throw withoutStack(() => new UnreadableText(`line ${number}: it is no event`));
  try {
    const entry = parsed(line);
    if (!isEntry(entry)) throw new UnreadableText("it is no event");
    const { text, uid } = entryTextAndUid(goal, entry);
    if (text !== line) throw new UnreadableText("it is not written as events are");
    if (uid !== entry.uid)
      throw new UnreadableText("its uid is not the hash of its content: the event was changed");
    checkEvent(goal, entry);
    return entry;
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    throw new UnreadableText(`line ${number}: ${error.message}`, { cause: error });
  }
}

/** A parser's own message would quote the line. */
function parsed(line: string): Record<string, unknown> {
  try {
    return parseJson(line);
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    throw new UnreadableText("its JSON cannot be read", { cause: error });
  }
}

const tooLong = (number: number): UnreadableText =>
  new UnreadableText(`line ${number}: it has more than ${LINE_CHARACTERS} characters`);

function checkEvent(goal: string, entry: Entry): void {
  const { type, v, t, at, data } = entry;
  const spec = Object.hasOwn(goalKind.events, type)
    ? goalKind.events[type as keyof typeof goalKind.events]
    : undefined;
  if (!spec || type === MERGED || v > spec.version)
    throw new UnreadableText("this release does not know its type: upgrade holdfast");
  if (Object.hasOwn(data, "uid")) throw new UnreadableText("its data holds a second uid");
  if (type === "goal.created" && data["id"] !== goal)
    throw new UnreadableText("it creates another goal than the file is of");
  if (at > t) throw new UnreadableText("its time is after its place in the order");
  if (v === spec.version && !checkEntry(entry)) throw new UnreadableText("a value in it is not allowed");
}
