/** `watch`: prints `status` again whenever something changes. On a terminal it redraws in place. */

import { fstatSync, type Stats, unwatchFile, watchFile } from "node:fs";
import { join } from "node:path";
import { openOptionsOf, PLANNING, readStatus } from "../operations/index.ts";
import { goalOption, type Options } from "./command.ts";
import { contextOf } from "./run-command.ts";
import { EXIT, formatAnswer, openScreen, type Screen } from "./screen.ts";
import { statusData, statusPage } from "./status.ts";

/** Ages on the page grow even if nothing changes. */
const AT_LEAST_EVERY_MS = 30_000;
const AT_MOST_EVERY_MS = 200;
const LOOK_EVERY_MS = 500;
const CLEAR = "\u001b[H\u001b[J";
/** Delays between probes of the pipe: short at first for `| head -1`, then once a minute. */
const PROBE_AFTER_MS = 1_000;
const MAX_PROBE_MS = 60_000;

export async function watch(options: Options): Promise<void> {
  const context = await contextOf(options);
  const { journal } = await context.holdfast();
  const screen = await openScreen(options);
  const goal = goalOption(options["goal"]);
  let last = "";
  const show = async (): Promise<void> => {
    await context.current();
    const { notMerged, place, coversAll } = context;
    const how = { ...openOptionsOf(place), coversAll, goal, now: context.now(), notMerged };
    const status = await readStatus(journal.store, how);
    const page = (each: typeof status) => livePage(each, screen);
    const text = formatAnswer(options["json"], "status", status, page, (each) => statusData(each, screen));
    // A watch notification may be spurious, and a program would take a repeated answer for a change.
    if (text !== last || screen.isTerminal) output.write(text);
    last = text;
  };
  const output = new Output(options["json"] ? "" : "\n");
  const change = new Change();
  const unwatch = journal.watch(null, () => change.happened());
  // A pull changes files, not the store. Polling works for a folder that does not exist yet.
  const events = join(context.place.root, PLANNING, "events");
  const pulled = (now: Stats, before: Stats): void => {
    // `watchFile` also reports once that the folder does not exist.
    if (now.ctimeMs !== 0 || before.ctimeMs !== 0) change.happened();
  };
  watchFile(events, { interval: LOOK_EVERY_MS }, pulled);
  const stop = (): void => change.stop();
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
  try {
    for (;;) {
      await show();
      if (!(await change.next(screen.isTerminal ? AT_LEAST_EVERY_MS : null))) break;
      await new Promise((resolve) => setTimeout(resolve, AT_MOST_EVERY_MS));
    }
  } finally {
    output.stop();
    unwatch();
    unwatchFile(events, pulled);
    await context.close();
  }
  // Tells the parent process that a signal ended this one.
  process.exitCode = EXIT.interrupted;
}

function livePage(status: Parameters<typeof statusPage>[0], screen: Screen): string {
  const page = statusPage(status, screen);
  return screen.isTerminal ? `${CLEAR}${page}` : `${page}\n`;
}

/**
 * Writes to the output, and notices a reader that has closed the pipe. Only a write reveals that, so while
 * nothing changes a space is written now and then. JSON ignores it, and between two pages it is on a line of
 * its own. `screen.ts` ends the process if the write fails.
 */
class Output {
  private readonly afterSpaces: string;
  private readonly isPipe: boolean;
  private hasSpaces = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(afterSpaces: string) {
    this.afterSpaces = afterSpaces;
    const stats = fstatSync(process.stdout.fd);
    this.isPipe = stats.isFIFO() || stats.isSocket();
  }

  write(text: string): void {
    process.stdout.write(this.hasSpaces ? this.afterSpaces + text : text);
    this.hasSpaces = false;
    this.probeIn(PROBE_AFTER_MS);
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private probeIn(ms: number): void {
    if (!this.isPipe) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      // A slow reader still has data to read.
      if (process.stdout.writableLength === 0) {
        process.stdout.write(" ");
        this.hasSpaces = true;
      }
      this.probeIn(Math.min(2 * ms, MAX_PROBE_MS));
    }, ms);
  }
}

class Change {
  private isPending = false;
  private isStopped = false;
  private wake: () => void = () => undefined;

  happened(): void {
    this.isPending = true;
    this.wake();
  }

  stop(): void {
    this.isStopped = true;
    this.wake();
  }

  async next(withinMs: number | null): Promise<boolean> {
    if (!this.isPending && !this.isStopped) {
      await new Promise<void>((resolve) => {
        const timer =
          withinMs === null ? setInterval(() => undefined, 60_000) : setTimeout(resolve, withinMs);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.isPending = false;
    return !this.isStopped;
  }
}
