// Decisions on the page beyond a plain answer: acts that a pull brought, budgets, answers that need a key.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { waitingActs } from "../../src/model/goal/index.ts";
import { allowSigner, publicKey, useKey } from "../../src/signing/index.ts";
import { programFile } from "../program.ts";
import { needs, works } from "../stores/sqlite/processes.ts";
import { findBrowser, launchBrowser, openTab, type ServedPage, startPage } from "./page.ts";
import { fillGoal, kill, startAgent } from "./sample-store.ts";

const agent = programFile("test/web/programs/shop-agent.ts");

describe.skipIf(findBrowser() === null)("decisions in a browser", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-decisions-"));
  const store = join(folder, "store.db");
  const before = process.env["XDG_CONFIG_HOME"];
  let browser: Browser;
  let served: ServedPage;

  beforeAll(async () => {
    process.env["XDG_CONFIG_HOME"] = join(folder, "settings");
    await fillGoal(store, folder);
    served = await startPage(store);
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    await served?.close();
    rmSync(folder, { recursive: true, force: true });
    if (before === undefined) delete process.env["XDG_CONFIG_HOME"];
    else process.env["XDG_CONFIG_HOME"] = before;
  });

  test("acts that a pull brought are confirmed and rejected, by keyboard", async () => {
    const goal = await served.context.readGoal("checkout");
    const uidOf = (type: string): string =>
      waitingActs(goal.state).find((each) => each.type === type)?.uid ?? "";
    const [confirmed, rejected] = [uidOf("blocker.resolved"), uidOf("decision.made")];
    const tab = await openTab(browser, served, "#/inbox?kind=review");
    const rows = tab.locator(".row");
    await tab.getByText("Ship without tests").first().waitFor();
    expect(await rows.count()).toBe(2);
    const chooseRow = async (text: string): Promise<void> => {
      const isCurrent = `document.querySelector(".row.current").textContent.includes(${JSON.stringify(text)})`;
      for (const key of ["k", "j"]) if (!(await tab.evaluate(isCurrent))) await tab.keyboard.press(key);
      expect(await tab.evaluate(isCurrent)).toBe(true);
    };
    await chooseRow("blocker resolved");
    await tab.keyboard.press("c");
    await tab.getByText("ann (human), as the file says").waitFor();
    const accept = `holdfast review --accept ${confirmed.slice(0, 12)} --goal checkout`;
    await tab.getByRole("dialog").getByText(accept).waitFor();
    await tab.keyboard.press("Enter");
    await tab.getByText("confirmed: it counts here now").waitFor();
    await vi.waitFor(async () => expect(await rows.count()).toBe(1), 30_000);
    await chooseRow("Ship without tests");
    await tab.keyboard.press("r");
    await tab.getByText("ann (human), as the file says").waitFor();
    await tab.keyboard.type("ann did not write it");
    const retract = `holdfast retract ${rejected.slice(0, 12)} --why 'ann did not write it' --goal checkout`;
    await tab.getByRole("dialog").getByText(retract).waitFor();
    await tab.keyboard.press("Enter");
    await tab.getByText("rejected: it is taken back").waitFor();
    await tab.getByText("Nothing waits for you").waitFor();
    const { state } = await served.context.readGoal("checkout");
    expect(waitingActs(state)).toEqual([]);
    expect(state.blockers.get("B-002")).toMatchObject({ status: "resolved" });
    expect([...state.decisions.values()].map(({ decision }) => decision)).not.toContain("Ship without tests");
    await tab.context().close();
  });

  test("a paused session goes on once its budget is raised, and an amount below is refused", async () => {
    const run = startAgent(agent, store, "newsletter", {
      budget: 0.012,
      until: "done",
      calls: [1, 2, 3].map((list) => ["send_mail", { to: `list-${list}@example.com` }] as const),
    });
    await run.printed("paused");
    const tab = await openTab(browser, served, "#/inbox?kind=budget");
    await tab.getByText("its budget has no room for a model call").first().waitFor();
    await tab.keyboard.press("b");
    await tab.getByLabel(/New limit in dollars/).waitFor();
    await tab.keyboard.type("0.002");
    await tab.keyboard.press("Tab");
    await tab.keyboard.type("the list is longer");
    await tab.keyboard.press("Enter");
    await tab.getByRole("alert").filter({ hasText: "only raised" }).waitFor();
    await tab.getByLabel(/New limit in dollars/).fill("1");
    const line = "holdfast session budget newsletter --usd 1 --why 'the list is longer'";
    await tab.getByRole("dialog").getByText(line).waitFor();
    await tab.keyboard.press("Enter");
    await tab.getByText("the budget of newsletter is raised").waitFor();
    await run.printed("done");
    const events: unknown[] = [];
    const { journal } = await served.context.holdfast();
    for await (const [, { type, data }] of journal.events("session/newsletter"))
      if (type === "budget.limited") events.push(data);
    const why = "the list is longer";
    expect(events.at(-1)).toEqual({ limits: { usd: 1 }, by: "ann", via: "web", why });
    await tab.evaluate('location.hash = "#/session/newsletter"');
    await tab.getByRole("button", { name: "Budget…" }).click();
    await tab.getByLabel(/New limit in dollars/).waitFor();
    await tab.context().close();
    await kill(run.child);
  });

  const hasKeygen = works("sh", "-c", "command -v ssh-keygen");
  const title = "a call that needs an approver says so, and takes an answer only with an approver's key";
  test.skipIf(!hasKeygen)(needs(title, "ssh-keygen", hasKeygen), async () => {
    const run = startAgent(agent, store, "wire", { calls: [["wire", { eur: 9_000 }]], until: "done" });
    await run.printed("waiting");
    const tab = await openTab(browser, served, "#/inbox?kind=approval");
    await tab.getByText("An approver has to answer").waitFor();
    await tab.keyboard.press("a");
    await tab.getByLabel("Reason").fill("signed contract");
    await tab.getByRole("button", { name: "Review" }).click();
    await tab.getByRole("button", { name: "Record approve" }).click();
    await tab.getByRole("alert").filter({ hasText: "wire requires an approver" }).waitFor();
    const key = join(folder, "id");
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key]);
    useKey({ name: "ann", key });
    allowSigner({ name: "ann", key: publicKey(key), purposes: ["answer"] });
    await tab.getByRole("button", { name: "Review" }).click();
    await tab.getByRole("button", { name: "Record approve" }).click();
    await run.printed("done");
    expect(run.lines).toContain('executing {"eur":9000}');
    await tab.context().close();
    await kill(run.child);
  });
});
