// Several things at once, and things that are too large: bulk answers, missed changes, a result of 50 MB.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { OPERATIONS, perform } from "../../src/operations/index.ts";
import { programFile } from "../program.ts";
import { findBrowser, launchBrowser, openTab, type ServedPage, startPage } from "./page.ts";
import { kill, startAgent } from "./sample-store.ts";

const MAX_ASSETS = 90_000;
const LARGE = 50_000_000;

const agent = programFile("test/web/programs/shop-agent.ts");
const folder = mkdtempSync(join(tmpdir(), "holdfast-limits-"));
const store = join(folder, "store.db");
let served: ServedPage;

beforeAll(async () => {
  await (await open(store)).close();
  served = await startPage(store);
});

afterAll(async () => {
  await served?.close();
  rmSync(folder, { recursive: true, force: true });
});

const origin = (): string => `http://127.0.0.1:${served.port}`;

async function logIn(): Promise<Record<string, string>> {
  const headers = { "Content-Type": "application/json", Origin: origin() };
  const body = JSON.stringify({ token: served.url.split("token=")[1] });
  const answer = await fetch(`${origin()}/api/login`, { method: "POST", headers, body });
  const { csrf } = (await answer.json()) as { csrf: string };
  const cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? "";
  return { ...headers, Cookie: cookie, "X-Holdfast-CSRF": csrf };
}

async function ask(name: "session timeline", input: object): Promise<unknown> {
  const operation = OPERATIONS.get(name);
  if (!operation) throw new Error(`no operation ${name}`);
  return perform(operation, served.context, input);
}

test("all files of the page together are at most 90 KB, compressed", async () => {
  const sizes = await Promise.all(
    ["/", "/page.js", "/plot.js", "/page.css", "/icon.svg"].map(async (path) => {
      const answer = await fetch(origin() + path, { headers: { "Accept-Encoding": "gzip" } });
      expect(answer.status, path).toBe(200);
      return Number(answer.headers.get("content-length"));
    }),
  );
  const total = sizes.reduce((sum, size) => sum + size, 0);
  expect(total).toBeGreaterThan(10_000);
  expect(total).toBeLessThanOrEqual(MAX_ASSETS);
});

test("a dead process is shown as crashed, also after a person has answered for its call", async () => {
  const script = { calls: [["charge", { order: 1 }]], hang: true } as const;
  const { child, printed } = startAgent(agent, store, "answered", script);
  await printed("executing");
  await kill(child);
  const holdfast = await open(store);
  await holdfast.calls.resolve(
    { session: "answered", callId: "c_answered_1" },
    { outcome: "landed", result: { ok: true }, by: "ann", why: "seen" },
  );
  await (await holdfast.session("answered")).close();
  await holdfast.close();
  const shown = await ask("session timeline", { session: "answered" });
  const crashed = { crashed: true, pid: child.pid };
  expect(shown).toMatchObject({ lanes: [crashed, { crashed: false, pid: process.pid }] });
  const { bars } = shown as { bars: { kind: string; until: string | null }[] };
  const gaps = bars.filter(({ kind }) => kind === "gap");
  expect(gaps).toEqual([expect.objectContaining({ until: expect.any(String) })]);
});

/** Frames of the feed, as they come. */
async function follow(headers: Record<string, string>, lastId?: string) {
  const stop = new AbortController();
  const all = { ...headers, ...(lastId === undefined ? {} : { "Last-Event-ID": lastId }) };
  const asked = { method: "POST", headers: all, body: "{}", signal: stop.signal };
  const { body } = await fetch(`${origin()}/api/live`, asked);
  if (!body) throw new Error("the feed has no body");
  const reader = body.getReader();
  let text = "";
  const until = async (wanted: RegExp): Promise<string> => {
    while (!wanted.test(text)) text += new TextDecoder().decode((await reader.read()).value);
    return /id: (\S+)\n(?!.*id:)/s.exec(text)?.[1] ?? "";
  };
  return { until, stop: () => stop.abort() };
}

test("a page that was away learns what it missed, and after a restart that all may be new", async () => {
  const headers = await logIn();
  const holdfast = await open(store);
  const first = await follow(headers);
  const stay = await follow(headers);
  const session = await holdfast.session("missed-1");
  const seen = await first.until(/session\/missed-1/);
  first.stop();
  await session.close();
  await (await holdfast.session("missed-2")).close();
  await stay.until(/session\/missed-2/);
  const again = await follow(headers, seen);
  await again.until(/session\/missed-2/);
  const stranger = await follow(headers, "0123456789ab.7");
  await stranger.until(/event: reset/);
  for (const each of [stay, again, stranger]) each.stop();
  await holdfast.close();
});

describe.skipIf(findBrowser() === null)("in a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());

  test("calls of one kind are answered together, each shown before anything is recorded", async () => {
    const ids = ["bulk-1", "bulk-2"];
    const runs = ids.map((id, index) =>
      startAgent(agent, store, id, { calls: [["refund", { eur: 5, order: 70 + index }]], until: "done" }),
    );
    await Promise.all(runs.map(({ printed }) => printed("waiting")));
    const tab = await openTab(browser, served, "#/inbox?kind=approval");
    for (const order of [70, 71])
      await tab
        .locator(".row", { hasText: `"order":${order}` })
        .locator("input")
        .click();
    await tab.getByRole("button", { name: /Approve 2/ }).click();
    await tab.getByLabel("Reason").fill("both came back");
    await tab.getByRole("button", { name: "Review" }).click();
    expect(await tab.locator(".reviewed li").count()).toBe(2);
    for (const { lines } of runs) expect(lines.join()).not.toContain("executing");
    await tab.getByRole("button", { name: "Record approve" }).click();
    await tab.getByText("2 answers recorded").waitFor();
    await Promise.all(runs.map(({ printed }) => printed("done")));
    await tab.context().close();
  });

  test("a call is approved with other arguments, for a limited time", async () => {
    const run = startAgent(agent, store, "less", { calls: [["refund", { eur: 50 }]], until: "done" });
    await run.printed("waiting");
    const tab = await openTab(browser, served, "#/inbox?kind=approval");
    await tab.getByRole("button", { name: /refund.*"eur":50/s }).click();
    await tab.getByRole("button", { name: /Approve/ }).click();
    await tab.getByLabel(/Other arguments/).fill('{"eur":20}');
    await tab.getByLabel(/Minutes/).fill("30");
    await tab.getByLabel("Reason").fill("only a part came back");
    await tab.getByRole("button", { name: "Review" }).click();
    await tab.getByText(`--args '{"eur":20}' --expires 30m`, { exact: false }).waitFor();
    await tab.getByRole("button", { name: "Record approve" }).click();
    await run.printed('executing {"eur":20}');
    await run.printed("done");
    await tab.context().close();
  });

  test("sessions are cancelled together, after a list of those that would change", async () => {
    const holdfast = await open(store);
    for (const id of ["many-1", "many-2"]) await (await holdfast.session(id)).close();
    const ended = await holdfast.session("many-3");
    await ended.complete();
    await ended.close();
    const tab = await openTab(browser, served, "#/sessions?text=many-");
    for (const id of ["many-1", "many-2", "many-3"]) await tab.getByLabel(`Select session ${id}`).click();
    await tab.getByRole("button", { name: "Cancel…" }).click();
    await tab.getByText("2 sessions of 3 would change").waitFor();
    const statuses = async () =>
      (await Promise.all(["many-1", "many-2", "many-3"].map((id) => holdfast.sessions.get(id)))).map(
        ({ status }) => status,
      );
    expect(await statuses()).toEqual(["active", "active", "completed"]);
    await tab.getByLabel("Reason").fill("not needed");
    await tab.getByRole("button", { name: "Cancel 2 sessions" }).click();
    await tab.getByText("2 sessions cancelled").waitFor();
    expect(await statuses()).toEqual(["cancelled", "cancelled", "completed"]);
    await holdfast.close();
    await tab.context().close();
  });

  test("a result of 50 MB leaves the page usable", async () => {
    const run = startAgent(agent, store, "large", {
      calls: [
        ["look_up", { customer: "c" }],
        ["charge", {}],
      ],
      large: LARGE,
    });
    await run.printed("done");
    const sizes: number[] = [];
    const tab = await openTab(browser, served, "#/session/large");
    tab.on("response", (answer) => {
      void answer.body().then(
        ({ length }) => sizes.push(length),
        () => undefined,
      );
    });
    for (const view of ["versions", "calls", "timeline"]) {
      await tab.evaluate(`location.hash = "#/session/large?tab=${view}"`);
      await tab.locator(`#tab-${view}[aria-selected=true]`).waitFor();
      await tab.locator(".message, .calls .line, .bar.tool").first().waitFor();
    }
    await tab.evaluate('location.hash = "#/ledger?tool=charge"');
    await tab.locator(".entry button", { hasText: "large" }).click();
    await tab
      .getByText(/\[500000\d\d bytes\]/)
      .first()
      .waitFor();
    await tab.evaluate('location.hash = "#/session/large"');
    await tab.locator(".events .line-button", { hasText: "bytes]" }).click();
    const downloading = tab.waitForEvent("download");
    await tab.getByRole("link", { name: /download artifact/ }).click();
    expect((await downloading).suggestedFilename()).toMatch(/^[0-9a-f]{64}$/);
    expect(Math.max(...sizes.filter((size) => size < LARGE))).toBeLessThan(1_000_000);
    await tab.context().close();
  });
});
