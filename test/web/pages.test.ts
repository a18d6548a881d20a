// Each page in a real browser: what it shows, its filters in the address, its commands, its long lists.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { tool } from "../../src/ledger/index.ts";
import { open } from "../../src/open.ts";
import { programFile } from "../program.ts";
import { findBrowser, launchBrowser, openTab, type ServedPage, startPage } from "./page.ts";
import { fillStore } from "./sample-store.ts";

const cli = programFile("src/cli/main.ts", "command");
const LONG = 30_000;
const anything = {
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
};

/** Asks for the same payment in two turns: the second one does not run. */
async function payTwice(store: string): Promise<void> {
  const holdfast = await open(store);
  const session = await holdfast.session("twice", { title: "Pay order 9911 twice" });
  const pay = tool({
    ...{ name: "pay", description: "Part of a shop", effect: "mutate", input: anything },
    execute: () => ({ receipt: "re_9911" }),
  });
  await session.run({
    tools: [pay],
    prompt: { id: "go", text: "Pay order 9911." },
    model: async ({ messages }) => {
      const turn = messages.filter(({ role }) => role === "tool").length;
      const args = { eur: 12, order: 9911 };
      if (turn === 2) return { message: { text: "It is paid." } };
      return { message: { blocks: [{ kind: "tool_call", id: `c_${turn}`, name: "pay", args }] } };
    },
  });
  await session.close();
  await holdfast.close();
}

const goTo = (tab: Page, path: string): Promise<unknown> =>
  tab.evaluate(`location.hash = ${JSON.stringify(path)}`);

const PAGES = [
  "#/inbox",
  "#/sessions",
  "#/session/orders-may",
  "#/session/orders-march?tab=versions&version=3",
  "#/session/orders-march?tab=versions&version=3&with=5",
  "#/session/orders-march?tab=calls",
  "#/ledger?text=471",
  ...["board", "decisions", "assumptions", "blockers", "history", "briefing"].map(
    (tab) => `#/goals?tab=${tab}`,
  ),
  "#/fleet",
  "#/sessions?text=nothing-like-this",
];

describe.skipIf(findBrowser() === null)("pages in a browser", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-pages-"));
  const shop = join(folder, "shop");
  let browser: Browser;
  let store: string;
  let served: ServedPage;

  beforeAll(async () => {
    mkdirSync(shop);
    browser = await launchBrowser();
    store = await fillStore(shop, programFile("test/web/programs/shop-agent.ts"));
    await payTwice(store);
    served = await startPage(store);
  });

  afterAll(async () => {
    await browser?.close();
    await served?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const settled = async (tab: Page): Promise<void> => {
    await tab.locator("main h1").first().waitFor();
    await tab.locator("main", { hasText: "looking…" }).waitFor({ state: "detached" });
  };

  test("filters are in the address: a reload and the back button keep them", async () => {
    const tab = await openTab(browser, served, "#/sessions");
    await tab.getByRole("button", { name: "crashed", exact: true }).click();
    await tab.getByPlaceholder("Goal", { exact: true }).fill("checkout");
    await tab.keyboard.press("Enter");
    await tab.waitForURL(/status=crashed&goal=checkout$/);
    const rows = tab.locator(".table.sessions .line");
    const isFiltered = async (): Promise<void> => {
      await vi.waitFor(async () => expect(await rows.allTextContents()).toHaveLength(1), LONG);
      expect(await rows.first().textContent()).toContain("orders-may");
      expect(await tab.getByRole("button", { name: "crashed", pressed: true }).count()).toBe(1);
      expect(await tab.getByPlaceholder("Goal", { exact: true }).inputValue()).toBe("checkout");
    };
    await isFiltered();
    await tab.reload();
    await isFiltered();
    await rows.getByRole("link", { name: "orders-may" }).click();
    await tab.getByRole("heading", { name: /orders of May/ }).waitFor();
    await tab.goBack();
    await isFiltered();
    await goTo(tab, "#/sessions?tool=send_mail&metadata=shop=berlin");
    const mailed = ["newsletter", "orders-march"];
    await vi.waitFor(async () => expect(await rows.locator(".name").allTextContents()).toEqual(mailed), LONG);
    await goTo(tab, "#/ledger?status=unknown&text=x");
    await tab.reload();
    await tab.getByRole("button", { name: "unknown", pressed: true }).waitFor();
    await goTo(tab, "#/session/orders-march?only=effects");
    await tab.reload();
    await tab.getByRole("button", { name: "effects", pressed: true }).waitFor();
    const words = tab.locator(".events .word");
    await vi.waitFor(async () => {
      expect(new Set(await words.allTextContents())).toEqual(new Set(["issued", "completed"]));
    }, LONG);
    await tab.context().close();
  });

  test("sessions are retried together, after a list of those that would change", async () => {
    const holdfast = await open(store);
    await (await holdfast.session("again-1")).close();
    const running = await holdfast.session("again-2");
    const ended = await holdfast.session("again-3");
    await ended.complete();
    await ended.close();
    const tab = await openTab(browser, served, "#/sessions?text=again-");
    for (const id of ["again-1", "again-2", "again-3"]) await tab.getByLabel(`Select session ${id}`).click();
    await tab.getByRole("button", { name: "Retry…" }).click();
    const dialog = tab.getByRole("dialog");
    await dialog.getByText("1 session of 3 would change").waitFor();
    await dialog.getByText("stays: it is running").waitFor();
    await dialog.getByText("stays completed").waitFor();
    const retried = async (): Promise<unknown[]> => {
      const events: unknown[] = [];
      for (const id of ["again-1", "again-2", "again-3"])
        for await (const [, { type, data }] of holdfast.journal.events(`session/${id}`))
          if (type === "session.status" && (data as { via?: string }).via === "web") events.push(data);
      return events;
    };
    expect(await retried()).toEqual([]);
    await dialog.getByLabel("Reason").fill("the bank is back");
    await dialog.getByText("holdfast session retry again-1 --why 'the bank is back'").waitFor();
    await dialog.getByRole("button", { name: "Retry 1 session" }).click();
    await tab.getByText("1 session retried").waitFor();
    expect(await retried()).toEqual([{ status: "active", why: "the bank is back", by: "ann", via: "web" }]);
    await running.close();
    await holdfast.close();
    await tab.context().close();
  });

  test("the ledger says who paid, when, and how often it was asked", async () => {
    const tab = await openTab(browser, served, "#/ledger");
    await tab.getByRole("searchbox").fill("9911");
    await tab.keyboard.press("Enter");
    await tab.getByText("1 call of 1 key, 1 repeat that did not run again").waitFor();
    await tab
      .locator(".entry button", { hasText: /completed.*asked 2 times/s })
      .first()
      .click();
    const facts = tab.getByRole("dialog");
    await facts.getByText("re_9911").waitFor();
    for (const name of ["arguments", "issued", "settled", "key", "session"])
      expect(await facts.locator("dt", { hasText: name }).count(), name).toBe(1);
    await facts.getByRole("link", { name: "twice" }).click();
    await tab.getByRole("heading", { name: /order 9911 twice/ }).waitFor();
    // Drawn hollow, and never as a second effect.
    await tab.locator(".timeline .bar.repeat").waitFor();
    expect(await tab.locator(".timeline .bar.tool").count()).toBe(1);
    await tab.context().close();
  });

  test("the fleet shows latencies, unknown outcomes, waits, and spending by goal, tool and model", async () => {
    const tab = await openTab(browser, served, "#/fleet");
    await tab.locator(".plot .u-wrap").waitFor();
    const cells = tab.locator("tr", { hasText: "charge" }).locator("td");
    expect(await cells.count()).toBe(5);
    for (const at of [1, 2]) expect(await cells.nth(at).textContent()).toMatch(/^[\d.]+ (ms|s)$/);
    expect(await cells.nth(3).textContent()).toBe("2");
    const names = tab.locator(".bars li > span:first-child");
    for (const [by, shown] of [
      ["tool", ["charge", "send_mail", "look_up", "refund", "no tool"]],
      ["model", ["large-2", "small-1"]],
      ["goal", ["checkout", "no goal"]],
    ] as const) {
      await tab.getByRole("button", { name: `by ${by}` }).click();
      await tab.waitForURL(new RegExp(`by=${by}$`));
      const found = async (): Promise<Set<string>> => new Set(await names.allTextContents());
      await vi.waitFor(async () => {
        for (const name of shown) expect(await found()).toContain(name);
      }, LONG);
    }
    await tab.getByText("orders-may").waitFor();
    await tab.getByRole("button", { name: "Check the whole store" }).click();
    await tab.getByText("everything holds").waitFor();
    await tab.context().close();
  });

  test("a goal shows its board, decisions, blockers, drift, and the briefing of the next agent", async () => {
    const tab = await openTab(browser, served, "#/goals/checkout");
    await tab.locator(".column", { hasText: "Blocked" }).getByText("Refund within 14 days").waitFor();
    await tab.getByText("2 acts that a pull brought have no effect yet").waitFor();
    await tab.getByRole("tab", { name: "decisions" }).click();
    await tab.getByText("Charge through the ledger, never directly").waitFor();
    await tab.getByRole("tab", { name: "blockers" }).click();
    await vi.waitFor(async () => expect(await tab.locator(".graph .edge").count()).toBe(4), LONG);
    await tab.getByRole("tab", { name: "history" }).click();
    await tab.getByRole("button", { name: "Compare with the disk" }).click();
    await tab.getByText("no files are recorded").waitFor();
    await tab.getByRole("tab", { name: "briefing" }).click();
    const text = await tab.locator(".briefing").textContent();
    expect(text).toContain('BLOCKED B-001 "The bank\'s sandbox refuses refunds"');
    await tab.context().close();
  });

  test("a blocker is resolved in the inbox, by keyboard", async () => {
    const tab = await openTab(browser, served, "#/inbox?kind=blocker");
    await tab.locator(".row.current", { hasText: "B-001" }).or(tab.locator(".row.current")).waitFor();
    const isCurrent = `document.querySelector(".row.current").textContent.includes("B-001")`;
    for (const key of ["k", "j"]) if (!(await tab.evaluate(isCurrent))) await tab.keyboard.press(key);
    await tab.keyboard.press("r");
    await tab.getByLabel("How it was resolved").waitFor();
    await tab.keyboard.type("they opened it");
    await tab
      .getByText("holdfast block resolve B-001 --resolution 'they opened it' --goal checkout")
      .waitFor();
    await tab.keyboard.press("Enter");
    await tab.getByText("B-001 is resolved").waitFor();
    await tab.locator(".row", { hasText: "B-001" }).waitFor({ state: "detached" });
    const { state } = await served.context.readGoal("checkout");
    expect(state.blockers.get("B-001")).toMatchObject({ status: "resolved", resolution: "they opened it" });
    await tab.context().close();
  });

  test("no page is wider than a screen of 390 pixels", async () => {
    const tab = await openTab(browser, served, "#/inbox");
    await tab.setViewportSize({ width: 390, height: 844 });
    for (const path of PAGES) {
      await goTo(tab, path);
      await settled(tab);
      const wide = await tab.evaluate(
        "[document.documentElement, document.querySelector('main')].map((each) => each.scrollWidth)",
      );
      expect([path, wide]).toEqual([path, [390, 390]]);
    }
    await tab.context().close();
  });

  test("every command that a page or a dialog shows is one that the command line takes", async () => {
    let tab = await openTab(browser, served, "#/inbox");
    const lines = new Set<string>();
    const collect = async (): Promise<void> => {
      const texts = await tab.locator(".command code").allTextContents();
      for (const line of texts.flatMap((text) => text.split("\n"))) lines.add(line);
    };
    for (const path of PAGES) {
      await goTo(tab, path);
      await settled(tab);
      await collect();
    }
    for (const [kind, mark, keys] of [
      ["call", "unknown", ["l", "r", "f"]],
      ["approval", "approval", ["a", "d"]],
      ["budget", "budget", ["b"]],
      ["review", "pulled", ["c", "r"]],
      ["blocker", "blocker", ["r"]],
    ] as const) {
      await goTo(tab, `#/inbox?kind=${kind}`);
      await tab.locator(".row.current .mark", { hasText: mark }).waitFor();
      for (const key of keys) {
        // A key that comes while the list is drawn again finds no row.
        const dialog = tab.getByRole("dialog");
        for (let tries = 0; tries < 10 && !(await dialog.isVisible()); tries++) {
          await tab.keyboard.press(key);
          await dialog.waitFor({ timeout: 3_000 }).catch(() => undefined);
        }
        expect([kind, key, await dialog.isVisible()]).toEqual([kind, key, true]);
        await collect();
        await tab.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
      }
    }
    await goTo(tab, "#/session/orders-march");
    for (const name of ["Fork…", "Cancel…", "Retry…", "Budget…"]) {
      await tab.getByRole("button", { name }).click();
      await tab.getByRole("dialog").waitFor();
      await collect();
      await tab.keyboard.press("Escape");
      await tab.getByRole("dialog").waitFor({ state: "detached" });
    }
    await tab.context().close();
    for (const goal of [null, "bare"]) {
      const bare = join(folder, `${goal ?? "empty"}.db`);
      const holdfast = await open(bare);
      if (goal !== null) await (await holdfast.goal(goal, { statement: "Nothing yet" })).close();
      await holdfast.close();
      const page = await startPage(bare);
      tab = await openTab(browser, page, "#/inbox");
      for (const path of PAGES.filter((each) => !each.startsWith("#/session/"))) {
        await goTo(tab, path);
        await settled(tab);
        await collect();
      }
      await tab.context().close();
      await page.close();
    }
    expect([...lines].filter((line) => line.startsWith("holdfast decide "))).toHaveLength(1);
    expect(lines.size).toBeGreaterThan(25);
    const copy = join(folder, "copy");
    cpSync(shop, copy, { recursive: true });
    const misused: string[] = [];
    const rest = [...lines];
    const work = async (): Promise<void> => {
      for (let line = rest.pop(); line !== undefined; line = rest.pop())
        if (await isMisused(line, join(copy, "store.db"))) misused.push(line);
    };
    await Promise.all([work(), work(), work()]);
    expect(misused).toEqual([]);
  });

  /** Runs a line on a copy of the store. It may fail, but not because the command line does not know it. */
  async function isMisused(line: string, at: string): Promise<boolean> {
    const words = line.replaceAll("landed|retry|failed", "landed").replaceAll("approve|deny", "approve");
    const command = words.replaceAll("…", "1").replace(/^holdfast /, "");
    if (command.startsWith("demo")) return false;
    try {
      const run = ["-c", `exec "$0" "$1" ${command} --store "$2"`, process.execPath, cli, at];
      await promisify(execFile)("sh", run, { cwd: join(folder, "copy") });
      return false;
    } catch (error) {
      const said = String((error as { stderr?: string }).stderr);
      if (
        !/unknown option|no command|missing required|required option|too many arguments|Invalid/i.test(said)
      )
        return false;
      process.stderr.write(`${line}\n${said}\n`);
      return true;
    }
  }

  test("a command is shown as it works in the terminal that started the page", async () => {
    const typed = { program: "npx holdfast", store: " --store shop.db" };
    const page = await startPage(store, { typed });
    const tab = await openTab(browser, page, "#/ledger?text=471");
    await tab.getByText("npx holdfast ledger 471 --store shop.db", { exact: true }).waitFor();
    await goTo(tab, "#/sessions?text=audit");
    await tab.locator(".columns.sessions").waitFor();
    await tab.locator(".line", { hasText: "orders-may" }).waitFor({ state: "detached" });
    await tab.getByRole("checkbox").nth(0).click();
    await tab.getByRole("checkbox").nth(1).click();
    await tab.getByRole("button", { name: "Cancel…" }).click();
    const shown = await tab.getByRole("dialog").locator(".command code").textContent();
    const lines = shown?.split("\n") ?? [];
    expect(lines).toHaveLength(2);
    for (const line of lines)
      expect(line).toMatch(/^npx holdfast session cancel \S+ --why '…' --store shop\.db$/);
    await page.close();
    await tab.context().close();
  });

  test("a page whose server is gone says so, and a tab of an earlier start is shut out", async () => {
    const first = await startPage(store);
    const tab = await openTab(browser, first, "#/sessions");
    await tab.locator(".dot.live").waitFor();
    await first.close();
    await tab.getByRole("alert").filter({ hasText: "The server does not answer" }).waitFor();
    const second = await startPage(store, { port: first.port });
    await tab.getByText("This page is no longer valid").waitFor();
    expect(await tab.content()).not.toContain("orders-may");
    await second.close();
    await tab.context().close();
  });

  test("of a long list only the rows in view are in the document, and news above do not move it", async () => {
    const long = join(folder, "long.db");
    const holdfast = await open(long);
    for (let at = 0; at < 300; at++) await (await holdfast.session(`order-${at}`)).close();
    const log = await holdfast.session("log");
    const texts = Array.from({ length: 500 }, (_, at) => ({ role: "user" as const, text: `message ${at}` }));
    await log.append(texts);
    const page = await startPage(long);
    const tab = await openTab(browser, page, "#/sessions");
    const rows = tab.locator(".table.sessions .line");
    await rows.first().waitFor();
    const shown = (selector: string): Promise<unknown> =>
      tab.evaluate(`(() => {
        const middle = innerHeight / 2;
        const rows = [...document.querySelectorAll(${JSON.stringify(selector)})];
        const row = rows.find((each) => each.getBoundingClientRect().bottom > middle);
        return [row.textContent.replace(/\\d+(\\.\\d)? (s|min)$/, ""), Math.round(row.getBoundingClientRect().top)];
      })()`);
    const scroll = (by: number): Promise<unknown> =>
      tab.evaluate(`document.querySelector("main").scrollBy(0, ${by});
        new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))`);
    const last = async (): Promise<string | null> => rows.last().getAttribute("aria-posinset");
    while ((await last()) !== "301") await scroll(600);
    expect(await rows.count()).toBeLessThan(100);
    expect(await rows.last().textContent()).toContain("order-0");
    await scroll(-900);
    await vi.waitFor(async () => expect(await last()).not.toBe("301"), LONG);
    const before = await shown(".table.sessions .line");
    await (await holdfast.session("newest")).close();
    await vi.waitFor(async () => {
      expect(await rows.last().getAttribute("aria-setsize")).toBe("302");
    }, LONG);
    expect(await shown(".table.sessions .line")).toEqual(before);
    await goTo(tab, "#/session/log");
    const lines = tab.locator(".table.events .line");
    await lines.first().waitFor();
    // Older events that arrive while the end of the list is in view do not move it either.
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await tab.route(/session-log\?.*before/, async (route) => {
      await held;
      await route.continue();
    });
    await vi.waitFor(async () => {
      await scroll(600);
      expect(await tab.getByRole("button", { name: "loading…" }).isVisible()).toBe(true);
    }, LONG);
    await scroll(5_000);
    const atEnd = await shown(".table.events .line");
    release();
    await vi.waitFor(async () => {
      expect(await lines.last().getAttribute("aria-setsize")).not.toBe("100");
    }, LONG);
    expect(await shown(".table.events .line")).toEqual(atEnd);
    const first = async (): Promise<number> => Number(await lines.last().getAttribute("aria-posinset"));
    while ((await first()) < 300) await scroll(600);
    expect(await lines.count()).toBeLessThan(120);
    const read = await shown(".table.events .line");
    const size = Number(await lines.last().getAttribute("aria-setsize"));
    await log.append([{ role: "user", text: "one more" }]);
    await vi.waitFor(async () => {
      expect(Number(await lines.last().getAttribute("aria-setsize"))).toBeGreaterThan(size);
    }, LONG);
    expect(await shown(".table.events .line")).toEqual(read);
    await log.close();
    await holdfast.close();
    await page.close();
    await tab.context().close();
  });
});
