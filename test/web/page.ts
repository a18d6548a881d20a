// The page in tests: the built files, a server on a free port, and a browser that is really there.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { Context } from "../../src/operations/index.ts";
import { startUi, type Ui } from "../../src/web/index.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

const BROWSERS = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/** The program of a browser on this machine, or null. `HOLDFAST_BROWSER` names another one. */
export function findBrowser(): string | null {
  const named = process.env["HOLDFAST_BROWSER"];
  return [...(named ? [named] : []), ...BROWSERS].find((path) => existsSync(path)) ?? null;
}

export function launchBrowser(): Promise<Browser> {
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath: findBrowser() ?? "", args });
}

/** A tab that is logged in, at `path`. */
export async function openTab(browser: Browser, { url }: Ui, path: string): Promise<Page> {
  const tab = await (await browser.newContext()).newPage();
  await tab.goto(url);
  await tab.waitForSelector(".side nav");
  await tab.evaluate(`location.hash = ${JSON.stringify(path)}`);
  return tab;
}

/** The folder of the built page. Built once in a run of the tests. */
function builtPage(): string {
  const home = process.env["HOLDFAST_TEST_PROGRAMS"] ?? join(root, "node_modules");
  const folder = join(home, ".built-page");
  if (existsSync(folder) && process.env["HOLDFAST_TEST_PROGRAMS"]) return folder;
  const making = mkdtempSync(join(home, ".building-page-"));
  execFileSync(process.execPath, [join(root, "scripts/build-page.mjs"), making], { cwd: root });
  try {
    rmSync(folder, { recursive: true, force: true });
    renameSync(making, folder);
  } catch (error) {
    // Another process was faster, with the same sources.
    if (!existsSync(folder)) throw error;
    rmSync(making, { recursive: true, force: true });
  }
  return folder;
}

/** Puts the page where a bundled program looks for it. */
export function putPageBeside(program: string): void {
  cpSync(builtPage(), join(dirname(program), "ui"), { recursive: true });
}

export interface ServedPage extends Ui {
  readonly warnings: readonly unknown[];
  readonly context: Context;
}

export async function startPage(
  store: string,
  { readOnly = null as string | null, port = 0, typed = { program: "holdfast", store: "" } } = {},
): Promise<ServedPage> {
  const warnings: unknown[] = [];
  const warn = (error: unknown): void => void warnings.push(error);
  const context = await Context.of({
    store,
    by: { name: "ann", role: "human" },
    caller: "person",
    via: "web",
    warn,
  });
  const ui = await startUi({ context, port, readOnly, assets: builtPage(), warn, typed });
  const close = async (): Promise<void> => {
    await ui.close();
    await context.close();
  };
  return { ...ui, warnings, context, close };
}
