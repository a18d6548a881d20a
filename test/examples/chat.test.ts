// The chat example in a real browser: its server is killed in a tool and in an answer, the page is reloaded.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { findBrowser } from "../web/page.ts";
import { root } from "./running.ts";

const executablePath = findBrowser();
const REPORT = "The card is charged. The parcel leaves today, and you get a mail with its number.";
const WAIT = { timeout: 60_000 };

describe.skipIf(executablePath === null)("the chat example", () => {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-chat-example-"));
  const page = join(folder, "page.js");
  const server = programFile("examples/chat/server.ts");
  const running = new Set<ChildProcess>();
  let browser: Browser;

  beforeAll(async () => {
    const bundle = await rolldown({
      cwd: root,
      input: join(root, "examples/chat/page.js"),
      platform: "browser",
      resolve: {
        alias: { "holdfast/chat-transport": join(root, "src/integrations/chat-transport/index.ts") },
      },
    });
    await bundle.write({ file: page, format: "esm" });
    const args = ["--no-sandbox", "--disable-dev-shm-usage"];
    browser = await chromium.launch({ executablePath: executablePath ?? "", args });
  });

  afterAll(async () => {
    await browser?.close();
    for (const child of running) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  /** Starts the server, and resolves to its address. */
  async function start(store: string, port = "0") {
    const env = {
      ...process.env,
      CHAT_PACE_MS: "40",
      CHAT_PAGE: page,
      CHAT_FOLDER: join(root, "examples/chat"),
    };
    const child = spawn(process.execPath, [server, store, port], {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    running.add(child);
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    return { child, port: /:(\d+)\//.exec(String(line))?.[1] ?? "" };
  }

  async function kill(child: ChildProcess): Promise<void> {
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    running.delete(child);
  }

  async function say(tab: Page, text: string): Promise<void> {
    await tab.fill("#text", text);
    await tab.click("#form button");
  }

  const charges = (store: string): string[] =>
    existsSync(`${store}.charges`) ? readFileSync(`${store}.charges`, "utf8").trim().split("\n") : [];

  test("killed in a tool and in an answer, the answer continues and the card is charged once", async () => {
    const store = join(folder, "chat.db");
    const first = await start(store);
    const tab = await browser.newPage();
    const texts = (): Promise<string[]> => tab.locator(".assistant .text").allTextContents();
    await tab.goto(`http://127.0.0.1:${first.port}/`);
    await say(tab, "Charge 20 for my order");
    await vi.waitFor(() => expect(charges(store)).toHaveLength(1), { ...WAIT, interval: 5 });
    await kill(first.child);

    const second = await start(store, first.port);
    await tab.reload();
    await tab.getByText("The parcel").waitFor(WAIT);
    await kill(second.child);

    // Without a reload: the page reconnects by itself.
    const third = await start(store, first.port);
    await vi.waitFor(async () => expect((await texts()).at(-1)).toBe(REPORT), WAIT);
    await tab.locator("#status", { hasText: "ready" }).waitFor(WAIT);
    expect(await texts()).toEqual(["I charge your card now.", REPORT]);
    await tab.reload();
    await vi.waitFor(async () => expect(await texts()).toEqual(["I charge your card now.", REPORT]), WAIT);
    expect(charges(store)).toEqual(["4711 20"]);
    await kill(third.child);
    await tab.close();
  }, 120_000);

  test("an approval is answered by a button, after a reload", async () => {
    const store = join(folder, "approval.db");
    const { child, port } = await start(store);
    const tab = await browser.newPage();
    await tab.goto(`http://127.0.0.1:${port}/`);
    await say(tab, "Charge 500 for my order");
    await tab.getByRole("button", { name: "Approve" }).waitFor(WAIT);
    expect(charges(store)).toEqual([]);
    await tab.reload();
    await tab.getByRole("button", { name: "Approve" }).click(WAIT);
    await tab.getByText(REPORT).waitFor(WAIT);
    expect(charges(store)).toEqual(["4711 500"]);
    await kill(child);
    await tab.close();
  }, 120_000);
});
