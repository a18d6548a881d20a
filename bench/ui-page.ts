/**
 * The page of `holdfast ui` over 10,000 sessions and one session of 100,000 events, in a real browser on
 * loopback: how long until the first paint, and how long the page is busy at once while a person scrolls.
 * The time until the rows are painted is printed beside it.
 *
 * Paints are measured by the browser, each in a new profile; the server allows no cache. Tasks are those of a trace of the
 * page's main thread, because the browser reports only tasks above 50 ms to the page itself.
 */

import type { Browser, Page } from "playwright-core";
import { findBrowser, launchBrowser, type ServedPage, startPage } from "../test/web/page.ts";
import type { Measure, Numbers } from "./measure.ts";
import type { Scratch } from "./scratch.ts";
import { median, rounded } from "./statistics.ts";

const SESSIONS = 10_000;
const EVENTS = 100_000;
const AT_ONCE = 200;
const MESSAGES = 1_000;
const ROUNDS = 5;
const STEPS = 120;

/** Where a person looks first, and what is there once the answer has been drawn. */
const PAGES = [
  { name: "inbox", at: "#/inbox", shows: ".inbox .rows, .inbox .empty" },
  { name: "sessions", at: "#/sessions", shows: ".table.sessions .line" },
  { name: "session", at: "#/session/long", shows: ".table.events .line" },
] as const;
const SCROLLED = PAGES.filter(({ name }) => name !== "inbox");

interface Stage {
  readonly served: ServedPage;
  readonly browser: Browser;
}

const stages = new Map<Scratch, Promise<Stage>>();

/** The store is filled once for both measures. */
function stageOf(scratch: Scratch): Promise<Stage> {
  const making = stages.get(scratch) ?? setUp(scratch);
  stages.set(scratch, making);
  return making;
}

async function setUp(scratch: Scratch): Promise<Stage> {
  if (findBrowser() === null)
    throw new Error("no browser was found: install chromium, or set HOLDFAST_BROWSER");
  const file = scratch.file("page");
  const holdfast = await scratch.openOurs(file);
  for (let from = 0; from < SESSIONS; from += AT_ONCE) {
    const ids = Array.from({ length: AT_ONCE }, (_, index) => `order-${from + index}`);
    await Promise.all(
      ids.map(async (id) => {
        const session = await holdfast.session(id, { title: `Charge ${id}`, metadata: { shop: "berlin" } });
        await session.close();
      }),
    );
  }
  const long = await holdfast.session("long", { title: "A session of many events" });
  for (let from = 0; from < EVENTS; from += MESSAGES) {
    const texts = Array.from({ length: MESSAGES }, (_, index) => `message ${from + index} about an order`);
    await long.append(texts.map((text) => ({ role: "user" as const, text })));
  }
  await long.close();
  const served = await startPage(file);
  scratch.closeAtEnd(served);
  const browser = await launchBrowser();
  scratch.closeAtEnd(browser);
  return { served, browser };
}

/** Resolves with the time at which an element that fits `shows` has been painted. */
const whenShown = (shows: string): string => `globalThis.shown = new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (!document.querySelector(${JSON.stringify(shows)})) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  }).observe(document, { childList: true, subtree: true });
});`;

async function openCold({ served, browser }: Stage, { at, shows }: (typeof PAGES)[number]): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const login = await context.newPage();
  await login.goto(served.url);
  await login.waitForSelector(".side nav");
  await login.close();
  const tab = await context.newPage();
  await tab.addInitScript(whenShown(shows));
  await tab.goto(`http://127.0.0.1:${served.port}/${at}`);
  await tab.evaluate("globalThis.shown");
  return tab;
}

export const uiFirstPaint: Measure = {
  name: "uiFirstPaint",
  what: "ms until the first paint of the slowest page, over 10,000 sessions and 100,000 events",
  bar: 300,
  direction: "at most",
  async run(scratch) {
    const stage = await stageOf(scratch);
    const numbers: Record<string, number> = {};
    const first: number[] = [];
    for (const page of PAGES) {
      const paints: number[] = [];
      const rows: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const tab = await openCold(stage, page);
        paints.push(Number(await tab.evaluate(FIRST_PAINT)));
        rows.push(Number(await tab.evaluate("globalThis.shown")));
        await tab.context().close();
      }
      numbers[`${page.name}FirstPaintMs`] = rounded(median(paints), 0);
      numbers[`${page.name}RowsMs`] = rounded(median(rows), 0);
      first.push(median(paints));
    }
    return { value: rounded(Math.max(...first), 0), numbers: { ...numbers, rounds: ROUNDS } };
  },
};

const FIRST_PAINT = 'performance.getEntriesByName("first-contentful-paint")[0].startTime';

export const uiScrolling: Measure = {
  name: "uiScrolling",
  what: "ms of the longest task while a person scrolls through the sessions and through the long log",
  bar: 50,
  direction: "at most",
  async run(scratch) {
    const stage = await stageOf(scratch);
    const numbers: Record<string, number> = {};
    const longest: number[] = [];
    for (const page of SCROLLED) {
      const tab = await openCold(stage, page);
      await stage.browser.startTracing(tab, { categories: ["toplevel", "devtools.timeline"] });
      await scroll(tab);
      const { ms, cpuMs, tasks } = longestTask(await stage.browser.stopTracing());
      numbers[`${page.name}LongestMs`] = ms;
      numbers[`${page.name}LongestCpuMs`] = cpuMs;
      numbers[`${page.name}Tasks`] = tasks;
      // Only the rows in view are in the document; the last of them knows how far the person came.
      numbers[`${page.name}Rows`] = Number(
        await tab.locator(page.shows).last().getAttribute("aria-posinset"),
      );
      longest.push(ms);
      await tab.context().close();
    }
    return { value: Math.max(...longest), numbers: numbers satisfies Numbers };
  },
};

async function scroll(tab: Page): Promise<void> {
  await tab.mouse.move(700, 500);
  for (let step = 0; step < STEPS; step++) {
    await tab.mouse.wheel(0, 2_000);
    await tab.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))");
  }
}

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly dur?: number;
  readonly tdur?: number;
  readonly args: { readonly name?: string; readonly data?: { readonly url?: string } };
}

/** Tasks of the main threads of renderers. `cpuMs` leaves out the time in which other programs ran. */
function longestTask(trace: Buffer): { ms: number; cpuMs: number; tasks: number } {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const threads = new Set(
    traceEvents
      .filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain")
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  const tasks = traceEvents.filter(
    ({ name, ph, pid, tid }) => ph === "X" && /RunTask$/.test(name) && threads.has(`${pid} ${tid}`),
  );
  const most = (times: readonly (number | undefined)[]): number =>
    rounded(times.reduce<number>((max, time = 0) => Math.max(max, time), 0) / 1_000, 1);
  const [ms, cpuMs] = [most(tasks.map(({ dur }) => dur)), most(tasks.map(({ tdur }) => tdur))];
  return { ms: tasks.length === 0 ? Number.NaN : ms, cpuMs, tasks: tasks.length };
}
