/** Where a command prints: how wide it is, whether it has colours, and what happens when nobody reads any more. */

import { shellWord } from "../model/stream/index.ts";
import { ON_A_STORE, withTypedCommands } from "../wiring/index.ts";
import { EXIT } from "./exit-codes.ts";
import { harmless } from "./harmless.ts";

type Brush = (text: string) => string;

export interface Paint {
  readonly bold: Brush;
  readonly dim: Brush;
  readonly red: Brush;
  readonly yellow: Brush;
  readonly green: Brush;
  readonly cyan: Brush;
}

const same: Brush = (text) => text;
const PLAIN: Paint = { bold: same, dim: same, red: same, yellow: same, green: same, cyan: same };

export interface Screen {
  readonly paint: Paint;
  /** Columns; without end where the output is no terminal, so that programs read whole lines. */
  readonly width: number;
  readonly isTerminal: boolean;
  /** ` --store …` where a store was named: what a page says to type is meant for that one. */
  readonly store?: string;
}

/** `named` is the store as it was typed. One with a password in it is not repeated. */
export async function openScreen(named?: unknown): Promise<Screen> {
  const { stdout } = process;
  stdout.on("error", endUnheard);
  const isTerminal = stdout.isTTY === true;
  const width = isTerminal ? Math.max(40, stdout.columns || 80) : Number.POSITIVE_INFINITY;
  const isSecret = /\/\/[^/]*@/.test(String(named));
  const store = typeof named === "string" ? ` --store ${isSecret ? "…" : shellWord(named)}` : "";
  hintedStore = store;
  if (!hasColours(isTerminal)) return { paint: PLAIN, width, isTerminal, store };
  const { default: colours } = await import("picocolors");
  return { paint: colours.createColors(true), width, isTerminal, store };
}

/** `| head` closes the pipe: that is no failure of ours, and nothing is left to say. Of a full disk somebody has to hear. */
function endUnheard(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit(EXIT.closedPipe);
  process.stderr.write(`holdfast: the answer could not be written to the output: ${error.message}\n`);
  process.exit(EXIT.failed);
}

/** For whoever ends the process right after: that it was not written is told later than the write returns. */
export function printed(text: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(text, (error) => (error ? endUnheard(error) : resolve()));
  });
}

/** What a page says to type. */
export function typed({ paint, store = "" }: Screen, command: string): string {
  return paint.cyan(command + store);
}

/** Of the screen that was opened last: a failure is told where no screen is at hand. */
let hintedStore = "";

/** A command as a hint names it, up to where an option may stand. Prose may speak of holdfast as well. */
const HINTED = new RegExp(String.raw`\bholdfast (?:${ON_A_STORE})(?![\w-])`, "g");

/** A hint is worded where nobody knows what was typed: its commands have to reach the same store. */
export function withStore(hint: string): string {
  if (hintedStore === "" || hint.includes("--store")) return hint;
  return hint.replace(HINTED, (command) => command + hintedStore);
}

function hasColours(isTerminal: boolean): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0";
  return isTerminal && TERM !== "dumb";
}

/** Every answer: exact JSON, or a page that a terminal can be trusted with. */
export function answer<Data>(
  asJson: unknown,
  kind: string,
  data: Data,
  page: (data: Data) => string,
  exact: (data: Data) => unknown = (same) => same,
): string {
  return asJson ? envelope(kind, exact(data)) : withTypedCommands(page(harmless(data)));
}

/** The envelope that every `--json` answer comes in. */
export function envelope(kind: string, data: unknown): string {
  return `${JSON.stringify({ schemaVersion: 1, kind, data })}\n`;
}
