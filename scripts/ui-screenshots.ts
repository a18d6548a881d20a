// Takes the screenshots in docs/ui/: `node scripts/run.mjs scripts/ui-screenshots.ts`. With --all, every page
// in both colours and two widths goes to the folder that follows.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { findBrowser, startPage } from "../test/web/page.ts";
import { fillStore } from "../test/web/sample-store.ts";

const SHOTS = [
  ["inbox", "#/inbox"],
  ["sessions", "#/sessions"],
  ["session", "#/session/orders-may"],
  ["versions", "#/session/orders-march?tab=versions&version=3"],
  ["diff", "#/session/orders-march?tab=versions&version=3&with=6"],
  ["costs", "#/session/orders-march"],
  ["calls", "#/session/orders-march?tab=calls"],
  ["ledger", "#/ledger?text=471"],
  ["goals", "#/goals"],
  ["blockers", "#/goals?tab=blockers"],
  ["decisions", "#/goals?tab=decisions"],
  ["briefing", "#/goals?tab=briefing"],
  ["fleet", "#/fleet"],
  ["empty", "#/sessions?text=nothing"],
] as const;

/** The six of the documentation: page, width, colours. */
const DOCUMENTED = [
  ["inbox", 1440, "light"],
  ["session", 1440, "light"],
  ["versions", 1440, "dark"],
  ["ledger", 1440, "light"],
  ["goals", 1440, "dark"],
  ["fleet", 390, "light"],
] as const;

const all = process.argv.indexOf("--all");
const folder = all < 0 ? "docs/ui" : (process.argv[all + 1] ?? "shots");
mkdirSync(folder, { recursive: true });
const work = mkdtempSync(join(tmpdir(), "holdfast-shots-"));
const executablePath = findBrowser();
if (executablePath === null)
  throw new Error("no browser was found: install chromium, or set HOLDFAST_BROWSER");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--hide-scrollbars"] });
const { programFile } = await import("../test/program.ts");
try {
  const store = await fillStore(work, programFile("test/web/programs/shop-agent.ts"));
  const page = await startPage(store);
  const wanted =
    all < 0
      ? DOCUMENTED
      : SHOTS.flatMap(([name]) =>
          [390, 1440].flatMap((width) => ["light", "dark"].map((colours) => [name, width, colours] as const)),
        );
  for (const [name, width, colours] of wanted) {
    const scheme = colours as "light" | "dark";
    const context = await browser.newContext({
      viewport: { width, height: width < 500 ? 844 : 900 },
      colorScheme: scheme,
    });
    const tab = await context.newPage();
    await tab.goto(page.url);
    await tab.waitForSelector(".side nav");
    await tab.goto(`http://127.0.0.1:${page.port}/${SHOTS.find(([each]) => each === name)?.[1] ?? ""}`);
    await tab.waitForTimeout(400);
    await tab.screenshot({ path: join(folder, all < 0 ? `${name}.png` : `${name}-${width}-${colours}.png`) });
    await context.close();
  }
  await page.close();
} finally {
  await browser.close();
  rmSync(work, { recursive: true, force: true });
}
