// Takes the screenshots in docs/ui/, on Node 24: `node scripts/ui-screenshots.ts`. With --all FOLDER, every
// page and every dialog goes there, in both colours and two widths; names that follow choose among them.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Page } from "playwright-core";

interface Shot {
  readonly name: string;
  readonly at: string;
  /** What a person does before the picture is taken. */
  readonly first?: (tab: Page) => Promise<void>;
  /** On a store without anything. */
  readonly isEmpty?: boolean;
}

const SHOTS: readonly Shot[] = [
  { name: "inbox", at: "inbox" },
  { name: "approval", at: "inbox?kind=approval" },
  { name: "answer", at: "inbox?kind=call", first: (tab) => tab.keyboard.press("l") },
  { name: "approve", at: "inbox?kind=approval", first: (tab) => tab.keyboard.press("a") },
  {
    name: "review",
    at: "inbox?kind=call",
    first: async (tab) => {
      await tab.keyboard.press("l");
      await tab.getByLabel("Reason").fill("seen in the bank's list");
      await tab.getByRole("button", { name: "Review" }).click();
    },
  },
  { name: "sessions", at: "sessions" },
  {
    name: "bulk",
    at: "sessions",
    first: async (tab) => {
      for (const row of [0, 1, 2, 3]) await tab.getByRole("checkbox").nth(row).click();
      await tab.getByRole("button", { name: "Cancel…" }).click();
    },
  },
  { name: "session", at: "session/orders-may" },
  { name: "costs", at: "session/orders-march" },
  { name: "versions", at: "session/orders-march?tab=versions&version=3" },
  { name: "diff", at: "session/orders-march?tab=versions&version=3&with=6" },
  { name: "calls", at: "session/orders-march?tab=calls" },
  { name: "ledger", at: "ledger?text=471" },
  { name: "call", at: "ledger?text=471", first: (tab) => tab.locator(".entry button").first().click() },
  { name: "goals", at: "goals" },
  { name: "assumptions", at: "goals?tab=assumptions" },
  { name: "decisions", at: "goals?tab=decisions" },
  { name: "blockers", at: "goals?tab=blockers" },
  { name: "history", at: "goals?tab=history" },
  { name: "briefing", at: "goals?tab=briefing" },
  { name: "fleet", at: "fleet" },
  { name: "palette", at: "inbox", first: (tab) => tab.keyboard.press("Control+k") },
  { name: "keys", at: "inbox", first: (tab) => tab.keyboard.press("?") },
  { name: "nothing", at: "sessions?text=nothing" },
  ...["inbox", "sessions", "ledger", "goals", "fleet"].map((at) => ({ name: `no-${at}`, at, isEmpty: true })),
];

/** The six of the documentation: page, width, colours. */
const DOCUMENTED = [
  ["inbox", 1440, "light"],
  ["session", 1440, "light"],
  ["versions", 1440, "dark"],
  ["ledger", 1440, "light"],
  ["goals", 1440, "dark"],
  ["fleet", 390, "light"],
] as const;

const root = fileURLToPath(new URL("..", import.meta.url));
const all = process.argv.indexOf("--all");
const folder = all < 0 ? join(root, "docs/ui") : (process.argv[all + 1] ?? "shots");
const names = all < 0 ? [] : process.argv.slice(all + 2);
mkdirSync(folder, { recursive: true });
// Programs of the tests are bundled here, and find the packages beside it.
const programs = mkdtempSync(join(root, "node_modules", ".shots-"));
process.env["HOLDFAST_TEST_PROGRAMS"] = programs;
const { open } = await import("../src/open.ts");
const { findBrowser, startPage } = await import("../test/web/page.ts");
const { fillStore } = await import("../test/web/sample-store.ts");
const { programFile } = await import("../test/program.ts");
const work = mkdtempSync(join(tmpdir(), "holdfast-shots-"));
const shop = join(work, "shop");
mkdirSync(shop);
const executablePath = findBrowser();
if (executablePath === null)
  throw new Error("no browser was found: install chromium, or set HOLDFAST_BROWSER");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--hide-scrollbars"] });

async function take(port: number, url: string, shot: Shot, width: number, colours: string): Promise<void> {
  const viewport = { width, height: width < 500 ? 844 : 900 };
  const context = await browser.newContext({ viewport, colorScheme: colours as "light" | "dark" });
  const tab = await context.newPage();
  await tab.goto(url);
  await tab.waitForSelector(".side nav");
  await tab.goto(`http://127.0.0.1:${port}/#/${shot.at}`);
  await tab.waitForTimeout(400);
  await tab.getByText("Loading…").first().waitFor({ state: "detached" });
  if ((await tab.locator(".plot").count()) > 0) await tab.locator(".plot .u-wrap").first().waitFor();
  await shot.first?.(tab);
  await tab.waitForTimeout(shot.first ? 300 : 0);
  const name = all < 0 ? `${shot.name}.png` : `${shot.name}-${width}-${colours}.png`;
  await tab.screenshot({ path: join(folder, name) });
  await context.close();
}

try {
  const full = await startPage(await fillStore(shop, programFile("test/web/programs/shop-agent.ts")));
  await (await open(join(work, "empty.db"))).close();
  const empty = await startPage(join(work, "empty.db"));
  const wanted =
    all < 0
      ? DOCUMENTED
      : SHOTS.filter(({ name }) => names.length === 0 || names.includes(name)).flatMap(({ name }) =>
          [390, 1440].flatMap((width) => ["light", "dark"].map((colours) => [name, width, colours] as const)),
        );
  for (const [name, width, colours] of wanted) {
    const shot = SHOTS.find((each) => each.name === name);
    const { port, url } = shot?.isEmpty ? empty : full;
    if (shot) await take(port, url, shot, width, colours);
  }
  await Promise.all([full.close(), empty.close()]);
} finally {
  await browser.close();
  for (const each of [work, programs]) rmSync(each, { recursive: true, force: true });
}
