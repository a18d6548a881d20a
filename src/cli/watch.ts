/** `status`, printed again whenever something changes. On a terminal in place, elsewhere one answer after another. */

import { fstatSync, type Stats, unwatchFile, watchFile } from "node:fs";
import { join } from "node:path";
import { PLANNING, readStatus } from "../operations/index.ts";
import { goalOption, type Options } from "./command.ts";
import { contextOf } from "./run-command.ts";
import { EXIT, formatAnswer, openScreen, type Screen } from "./screen.ts";
import { statusData, statusPage } from "./status.ts";

/** Ages grow also when nothing happens. */
const AT_LEAST_EVERY_MS = 30_000;
const AT_MOST_EVERY_MS = 200;
const LOOK_EVERY_MS = 500;
const CLEAR = "\u001b[H\u001b[J";
/** Whoever reads `| head -1` is gone at once; whoever still reads after a minute is asked once a minute. */
const ASK_AFTER_MS = 1_000;
const ASK_AT_MOST_EVERY_MS = 60_000;

export async function watch(options: Options): Promise<void> {
  const context = contextOf(options);
  const { journal } = await context.holdfast();
  const screen = await openScreen(options["store"]);
  const goal = goalOption(options["goal"]);
  let last = "";
  const show = async (): Promise<void> => {
    await context.current();
    const { namespace, store } = journal;
    const { notTakenIn } = context;
    const status = await readStatus(store, { namespace, goal, now: context.now(), notTakenIn });
    const page = (each: typeof status) => livePage(each, screen);
    const text = formatAnswer(options["json"], "status", status, page, (each) => statusData(each, screen));
    // A hint that something changed may be spurious: whoever reads line by line takes an answer for news.
    if (text !== last || screen.isTerminal) reader.tell(text);
    last = text;
  };
  const reader = new Reader(options["json"] ? "" : "\n");
  const change = new Change();
  const unwatch = journal.watch(null, () => change.happened());
  // A pull changes files and not the store. Asked for by time: a folder that is not there yet cannot be listened to.
  const events = join(context.place.root, PLANNING, "events");
  const pulled = (now: Stats, before: Stats): void => {
    // That it is not there is told too, once.
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
    reader.stop();
    unwatch();
    unwatchFile(events, pulled);
    await context.close();
  }
  // Whoever waits for us learns that it was the signal that ended us.
  process.exitCode = EXIT.interrupted;
}

function livePage(status: Parameters<typeof statusPage>[0], screen: Screen): string {
  const page = statusPage(status, screen);
  return screen.isTerminal ? `${CLEAR}${page}` : `${page}\n`;
}

/**
 * Who reads what is printed. That a pipe's reader is gone is told to nobody but to whoever writes something into it, and
 * while nothing changes nothing is to be said. So now and then a space is written: before a line of JSON it means
 * nothing, and between two pages it stands on a line of its own. `screen.ts` ends the process when that is refused.
 */
class Reader {
  private readonly afterSpaces: string;
  private readonly isPipe: boolean;
  private hasSpaces = false;
  private timer: NodeJS.Timeout | undefined;

  /** `afterSpaces`: what is written between the spaces and what is told next. */
  constructor(afterSpaces: string) {
    this.afterSpaces = afterSpaces;
    const stats = fstatSync(process.stdout.fd);
    this.isPipe = stats.isFIFO() || stats.isSocket();
  }

  tell(text: string): void {
    process.stdout.write(this.hasSpaces ? this.afterSpaces + text : text);
    this.hasSpaces = false;
    this.askIn(ASK_AFTER_MS);
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private askIn(ms: number): void {
    if (!this.isPipe) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      // One that is slow still has something to read.
      if (process.stdout.writableLength === 0) {
        process.stdout.write(" ");
        this.hasSpaces = true;
      }
      this.askIn(Math.min(2 * ms, ASK_AT_MOST_EVERY_MS));
    }, ms);
  }
}

/** Waits for a change, for time to pass, or for the end. */
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

  /** False when it is over. */
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
