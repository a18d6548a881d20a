// Texts that try to be code, in every field that a model, a tool or a person can fill: they stay texts.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tool } from "../../src/ledger/index.ts";
import { open } from "../../src/open.ts";
import { findBrowser, launchBrowser, type ServedPage, startPage } from "./page.ts";

const executablePath = findBrowser();

const HOSTILE = [
  "<script>pwned=1;alert(1)</script>",
  '<img src=x onerror="pwned=1;alert(2)">',
  '<svg onload="pwned=1"><animate onbegin=alert(3) attributeName=x dur=1s>',
  "</script><script>pwned=1</script>",
  '"><iframe src="javascript:alert(4)">',
  "javascript:alert(5)",
  "[click](javascript:alert(6))",
  "![x](http://evil.example/leak.png)",
  '<a href="http://evil.example/">link</a>',
  "{{constructor.constructor('alert(7)')()}}",
  ["$", "{alert(8)}"].join(""),
  "<style>@import 'http://evil.example/x.css';</style>",
  "<link rel=stylesheet href=http://evil.example/x.css>",
  '<meta http-equiv=refresh content="0;url=http://evil.example/">',
  "<base href=http://evil.example/>",
  "<form action=http://evil.example/><input name=q>",
  "<object data=http://evil.example/x.swf></object>",
  '<math><mtext></mtext><mglyph><style><!--</style><img title="--><img src onerror=alert(9)>">',
  "&lt;script&gt;alert(10)&lt;/script&gt;",
  "‮gnp.exe\u2066 safe\u2069",
  "\u001b[31mred\u001b[0m\u0007\u0000end",
  "tag\u{e0041}\u{e0042}\u200b\u200d\ufeffhidden\ufe0f",
  "<!--<script>--><script>pwned=1</script>",
  "__proto__\n\n# heading\n<details open ontoggle=alert(11)>",
];

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

/** Every text in every field of sessions, calls and goals. */
async function fill(store: string): Promise<void> {
  const holdfast = await open(store);
  for (const [index, text] of HOSTILE.entries()) {
    const clean = text.replaceAll("\0", "");
    const session = await holdfast.session(`s-${index}`, {
      title: clean,
      label: clean.slice(0, 100),
      metadata: { [clean]: clean },
    });
    const named = tool({
      name: `pay-${index}`,
      description: clean,
      effect: "mutate",
      input: anything,
      execute: () => {
        if (index % 2 === 0) throw new Error(text);
        return { [clean]: text };
      },
    });
    const id = `c-${index}`;
    await session.run({
      prompt: { id: "p", text },
      tools: [named],
      model: async ({ messages }) =>
        messages.at(-1)?.role === "tool"
          ? { message: { text } }
          : {
              message: {
                blocks: [
                  { kind: "tool_call", id, name: named.name, args: { [clean]: text } },
                  // A model can ask for a tool that does not exist, by any name.
                  { kind: "tool_call", id: `none-${index}`, name: clean, args: { [clean]: text } },
                  { kind: "text", text },
                ],
              },
            },
    });
    await session.checkpoint(clean);
    await session.close();
  }
  const all = HOSTILE.map((text) => text.replaceAll("\0", "")).join("\n");
  const by = { name: "<img src=x onerror=alert(12)>", role: "human" } as const;
  const goal = await holdfast.goal("hostile", {
    statement: all,
    title: HOSTILE[0] ?? "",
    phases: [HOSTILE[1] ?? ""],
    by,
  });
  for (const text of HOSTILE) {
    const line = text.replace(/\p{Cc}|\p{Cf}/gu, " ");
    await goal.addTask({ title: line });
    await goal.assume({ text: line });
    await goal.decide({
      decision: text,
      context: text,
      reason: text,
      type: "architecture",
      alternatives: [{ option: line, whyNot: text }],
    });
  }
  await goal.block({ description: all, affects: ["T-001", "T-002"] });
  await holdfast.close();
}

describe.skipIf(executablePath === null)("hostile texts", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-hostile-"));
  let browser: Browser;
  let served: ServedPage;

  beforeAll(async () => {
    const store = join(folder, "store.db");
    await fill(store);
    served = await startPage(store);
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    await served?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test(`${HOSTILE.length} of them in every field make no dialog, no request, no element`, async () => {
    const context = await browser.newContext();
    const tab = await context.newPage();
    const wrong: string[] = [];
    tab.on("dialog", (dialog) => {
      wrong.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    tab.on("request", (request) => {
      if (!request.url().startsWith(`http://127.0.0.1:${served.port}/`)) wrong.push(request.url());
    });
    tab.on("pageerror", (error) => wrong.push(error.message));
    tab.on("console", (message) => {
      if (message.type() === "error") wrong.push(message.text());
    });
    await tab.goto(served.url);
    await tab.waitForSelector(".side nav");
    const sessions = HOSTILE.flatMap((_, index) =>
      ["", "?tab=calls", "?tab=versions"].map((tabOf) => `#/session/s-${index}${tabOf}`),
    );
    const goals = ["board", "decisions", "assumptions", "blockers", "history", "briefing"].map(
      (each) => `#/goals/hostile?tab=${each}`,
    );
    for (const path of ["#/inbox", "#/sessions", "#/ledger", "#/fleet", ...goals, ...sessions]) {
      await tab.evaluate(`location.hash = ${JSON.stringify(path)}`);
      await tab.locator("main h1").first().waitFor();
      await tab.locator("main", { hasText: "looking…" }).waitFor({ state: "detached" });
      expect([path, await tab.evaluate(FOREIGN)]).toEqual([path, []]);
    }
    await tab.evaluate("location.hash = '#/inbox'");
    await tab.locator(".row-main").first().waitFor();
    for (let row = 0; row < 5; row++) {
      await tab.keyboard.press("j");
      expect(await tab.evaluate(FOREIGN)).toEqual([]);
    }
    await tab.keyboard.press("Enter");
    await tab.getByRole("dialog").waitFor();
    expect(await tab.evaluate(FOREIGN)).toEqual([]);
    expect(wrong).toEqual([]);
    await context.close();
  });

  test("hidden characters are shown by number", async () => {
    const context = await browser.newContext();
    const tab = await context.newPage();
    await tab.goto(served.url);
    await tab.waitForSelector(".side nav");
    await tab.evaluate("location.hash = '#/sessions'");
    await tab.getByText("\\u202egnp.exe\\u2066 safe\\u2069").first().waitFor();
    await tab.getByText("tag\\u{e0041}\\u{e0042}\\u200b\\u200d\\ufeffhidden\\ufe0f").first().waitFor();
    const found = await tab.evaluate(
      "/[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\u0000-\\u0008\\u001b]/.test(document.body.innerText)",
    );
    expect(found).toBe(false);
    await context.close();
  });
});

/** Elements and links that the page itself never makes. */
const FOREIGN = `[
  ...(globalThis.pwned === undefined ? [] : ["pwned"]),
  ...[...document.querySelectorAll("iframe,object,embed,base,math,video,audio,style,animate,details,mglyph,center")].map(({ tagName }) => tagName),
  ...[...document.querySelectorAll("script")].map(({ src }) => src).filter((src) => new URL(src || "x:y").pathname !== "/page.js" && new URL(src || "x:y").pathname !== "/plot.js"),
  ...[...document.querySelectorAll("img")].map((img) => img.getAttribute("src")).filter((src) => src !== "/icon.svg"),
  ...[...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((href) => !href.startsWith("#/")),
  ...[...document.querySelectorAll("form")].map((form) => form.getAttribute("action")).filter((action) => action !== null),
  ...[...document.querySelectorAll("link")].map((link) => link.getAttribute("href")).filter((href) => href !== "/icon.svg" && href !== "/page.css"),
  ...[...document.querySelectorAll("*")].flatMap((each) => [...each.attributes]).map(({ name }) => name).filter((name) => name.startsWith("on")),
]`;
