// The page in a real browser: a person answers, travels in time, sees a crash; hostile texts stay texts.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { open } from "../../src/open.ts";
import { programFile } from "../program.ts";
import { findBrowser, launchBrowser, type ServedPage, startPage } from "./page.ts";
import { fillStore, kill, startAgent } from "./sample-store.ts";

const executablePath = findBrowser();
const isCi = Boolean(process.env["CI"] || process.env["HOLDFAST_CI"]);
if (executablePath === null && isCi)
  throw new Error("no browser was found, and the tests in CI need one: install chromium");
if (executablePath === null)
  process.stderr.write(
    "browser tests are skipped: no chromium or chrome on this machine (set HOLDFAST_BROWSER)\n",
  );

/** 1 on an idle machine; more where even an empty program starts slowly. */
function slowness(): number {
  const start = performance.now();
  execFileSync(process.execPath, ["-e", "0"]);
  return Math.max(1, (performance.now() - start) / 100);
}

const agent = programFile("test/web/programs/shop-agent.ts");

describe.skipIf(executablePath === null)("in a browser", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-browser-"));
  let browser: Browser;
  let store: string;
  let served: ServedPage;

  beforeAll(async () => {
    browser = await launchBrowser();
    store = await fillStore(folder, agent);
    served = await startPage(store);
  });

  afterAll(async () => {
    await browser?.close();
    await served?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A tab that is logged in, with everything that must never happen. */
  async function openTab(path = "", { width = 1280, to = served } = {}) {
    const context: BrowserContext = await browser.newContext({
      viewport: { width, height: 900 },
      acceptDownloads: false,
    });
    const tab = await context.newPage();
    const wrong: string[] = [];
    const own = `http://127.0.0.1:${to.port}/`;
    tab.on("dialog", (dialog) => {
      wrong.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    tab.on("request", (request) => {
      if (!request.url().startsWith(own) && !request.url().startsWith("data:"))
        wrong.push(`request to ${request.url()}`);
    });
    tab.on("pageerror", (error) => wrong.push(`error ${error.message}`));
    tab.on("console", (message) => {
      if (message.type() === "error" && !/status of 4\d\d/.test(message.text()))
        wrong.push(`console ${message.text()}`);
    });
    await tab.goto(to.url);
    await tab.waitForSelector(".side nav");
    if (path !== "") await goTo(tab, path);
    return { tab, wrong, close: () => context.close() };
  }

  const goTo = (tab: Page, path: string): Promise<unknown> =>
    tab.evaluate(`location.hash = ${JSON.stringify(path)}`);

  test("the token leaves the address, and without a cookie the page shows nothing of the store", async () => {
    const { tab, wrong, close } = await openTab();
    expect(tab.url()).not.toContain("token");
    expect(await tab.evaluate("document.cookie")).toBe("");
    const stranger = await browser.newContext();
    const other = await stranger.newPage();
    await other.goto(`http://127.0.0.1:${served.port}/`);
    await other.getByText("open the printed address").or(other.getByText("no longer valid")).waitFor();
    expect(await other.content()).not.toContain("orders-may");
    await stranger.close();
    expect(wrong).toEqual([]);
    await close();
  });

  test("a person answers a waiting call, and the agent in another process goes on", async () => {
    const { child, printed, lines } = startAgent(agent, store, "live-refund", {
      title: "Refund order 9001",
      calls: [["refund", { eur: 5, order: 9001 }]],
      until: "done",
    });
    await printed("waiting");
    const { tab, wrong, close } = await openTab();
    await tab.getByRole("button", { name: /approval.*refund.*9001/s }).click();
    await tab
      .getByRole("article")
      .getByRole("button", { name: /Approve/ })
      .click();
    await tab.getByLabel("Reason").fill("the customer sent it back");
    await tab.getByRole("button", { name: "Review" }).click();
    await expect(
      tab.getByText("holdfast approve c_live-refund_1", { exact: false }).first().isVisible(),
    ).resolves.toBe(true);
    await tab.getByRole("button", { name: "Record approve" }).click();
    await tab.getByText("1 answer recorded").waitFor();
    await printed("done");
    expect(lines).toContain('executing {"eur":5,"order":9001}');
    await tab.getByRole("button", { name: /approval.*refund.*9001/s }).waitFor({ state: "detached" });
    const holdfast = await served.context.holdfast();
    const events: { type: string; at: number; data: unknown }[] = [];
    for await (const [, event] of holdfast.journal.events("session/live-refund")) events.push(event);
    const answered = events.findIndex(({ type }) => type === "call.approved");
    const tookMs = (events[answered + 1]?.at ?? Number.NaN) - (events[answered]?.at ?? Number.NaN);
    process.stderr.write(`the agent went on ${tookMs} ms after the answer was recorded\n`);
    expect(tookMs).toBeLessThan(1_000 * slowness());
    expect(events.find(({ type }) => type === "call.approved")?.data).toMatchObject({
      person: "ann",
      via: "web",
      why: "the customer sent it back",
    });
    expect(wrong).toEqual([]);
    await close();
    await kill(child);
  });

  test("an answer for a call that has changed meanwhile is refused, and says so", async () => {
    const { child } = startAgent(agent, store, "raced", { calls: [["refund", { eur: 1, order: 1 }]] });
    await new Promise((resolve) => child.once("close", resolve));
    const { tab, close } = await openTab();
    await tab.getByRole("button", { name: /refund.*"order":1\b/s }).click();
    await tab.keyboard.press("d");
    await tab.getByLabel("Reason").fill("too late");
    await tab.getByRole("button", { name: "Review" }).click();
    const other = await open(store);
    await other.calls.approve({ session: "raced", callId: "c_raced_1" }, { by: "bo" });
    await other.close();
    await tab.getByRole("button", { name: "Record deny" }).click();
    await tab
      .getByRole("alert")
      .filter({ hasText: /changed meanwhile|does not wait|waits for nobody/ })
      .waitFor();
    await close();
  });

  test("time travel to version 3, a comparison, and a fork with its effects off", async () => {
    const { tab, wrong, close } = await openTab("#/session/orders-march?tab=versions");
    const slider = tab.getByRole("slider");
    await slider.waitFor();
    await slider.fill("3");
    await tab.getByText("Version 3 of").waitFor();
    // The page shows the version before until this one has arrived.
    await vi.waitFor(async () => expect(await tab.locator(".message").count()).toBe(7), 30_000);
    await tab.getByLabel("Compare with").fill("5");
    await tab.keyboard.press("Tab");
    await vi.waitFor(async () => expect(await tab.locator(".message.added").count()).toBe(4), 30_000);
    await tab.getByRole("button", { name: "Fork at 3…" }).click();
    await tab.getByLabel("Name of the new session").fill("orders-march-b");
    await tab.getByRole("button", { name: "Fork at version 3" }).click();
    await tab.getByRole("link", { name: "Open orders-march-b" }).click();
    await tab.getByText("effects off").first().waitFor();
    const holdfast = await served.context.holdfast();
    expect(await holdfast.sessions.get("orders-march-b")).toMatchObject({ effects: "refused", version: 3 });
    expect(wrong).toEqual([]);
    await close();
  });

  test("a session that is killed while the page is open shows its crash, and then its resumption", async () => {
    const script = {
      title: "Charge 7001",
      hang: true,
      calls: [["charge", { eur: 9, order: 7001 }]] as const,
    };
    const first = startAgent(agent, store, "watched", script);
    await first.printed("executing");
    const { tab, wrong, close } = await openTab("#/session/watched");
    await tab.getByText("held by shop-agent").waitFor();
    await kill(first.child);
    await tab.getByText(/crashed: shop-agent/).waitFor();
    await tab.locator(".bar.gap").first().waitFor();
    const second = startAgent(agent, store, "watched", { ...script, hang: false });
    await second.printed("waiting");
    await tab.locator(".word", { hasText: "resumed" }).first().waitFor();
    expect(await tab.locator(".lane").count()).toBe(2);
    expect(wrong).toEqual([]);
    await close();
    await kill(second.child);
  });

  test("the inbox is answered by keyboard alone", async () => {
    const { child } = startAgent(agent, store, "by-keys", { calls: [["refund", { eur: 2, order: 5555 }]] });
    await new Promise((resolve) => child.once("close", resolve));
    const { tab, wrong, close } = await openTab();
    await tab.getByRole("button", { name: /refund.*5555/s }).waitFor();
    const isCurrent = (): Promise<boolean> =>
      tab.evaluate("document.querySelector('.row.current')?.textContent.includes('5555') ?? false");
    while (!(await isCurrent())) await tab.keyboard.press("j");
    await tab.keyboard.press("a");
    await tab.getByRole("dialog").waitFor();
    await tab.keyboard.type("agreed by phone");
    await tab.keyboard.press("Enter");
    await tab.getByRole("button", { name: "Record approve" }).waitFor();
    await tab.keyboard.press("Enter");
    await tab.getByText("1 answer recorded").waitFor();
    await tab.keyboard.press("Control+k");
    await tab.getByRole("combobox").waitFor();
    await tab.keyboard.type("orders-april");
    await tab.getByRole("option", { name: /Session Charge the open orders of April/ }).waitFor();
    await tab.keyboard.press("ArrowDown");
    await tab.keyboard.press("ArrowUp");
    await tab.keyboard.press("Enter");
    await tab.getByRole("heading", { name: /orders of April/ }).waitFor();
    for (const [key, heading] of [
      ["s", "Sessions"],
      ["e", "Ledger"],
      ["t", "Fleet and health"],
      ["i", "Inbox"],
    ] as const) {
      await tab.keyboard.press("g");
      await tab.keyboard.press(key);
      await tab.getByRole("heading", { name: heading, level: 1 }).waitFor();
    }
    expect(wrong).toEqual([]);
    await close();
  });

  const PAGES = [
    "#/inbox",
    "#/sessions",
    "#/session/orders-may",
    "#/session/orders-march?tab=versions&version=3",
    "#/session/orders-march?tab=versions&version=3&with=5",
    "#/session/orders-march?tab=calls",
    "#/ledger?text=471",
    "#/goals",
    "#/goals?tab=decisions",
    "#/goals?tab=assumptions",
    "#/goals?tab=blockers",
    "#/goals?tab=history",
    "#/goals?tab=briefing",
    "#/fleet",
    "#/sessions?text=nothing-like-this",
  ];

  test.each(["light", "dark"] as const)(
    "axe finds nothing to complain about on any page, %s",
    async (colours) => {
      const { tab, wrong, close } = await openTab();
      await tab.emulateMedia({ colorScheme: colours });
      // Through the debugger, so that the page's own policy stays in force.
      await tab.evaluate(axe.source);
      for (const path of PAGES) {
        await goTo(tab, path);
        await tab.locator("main h1").first().waitFor();
        await tab.locator("main", { hasText: "looking…" }).waitFor({ state: "detached" });
        const found = (await tab.evaluate(
          "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ target }) => target.join(' ')).join(', ')))",
        )) as string[];
        expect([path, found]).toEqual([path, []]);
      }
      expect(wrong).toEqual([]);
      await close();
    },
  );
});
