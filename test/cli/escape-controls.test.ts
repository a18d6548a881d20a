// Text of agents cannot control the reader's terminal: pages and errors escape it, and JSON keeps it exact.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const CLEAR = "\u001b[2J\u001b[H";
const TITLE = "\u001b]0;owned\u0007";
const TURNED = "\u202egnp.exe\u2066";
/** A text in tags, one in variation selectors, fillers, a soft hyphen, a private character. */
const UNSEEN = "\u{e0041}\u{e0042}a\ufe0f\ufe01\u{e0100}\u3164\u115f\u00ad\u200b\ue000";
const EVIL = `keys${CLEAR}${TITLE}${TURNED}${UNSEEN}\u009b31m\rall is well`;
const EMOJI = "❤️ 👩‍💻 👍🏽";
const PERSIAN = "می‌خواهم";
/** All control characters except newlines, tabs and the command line's own colours. */
const HARMFUL =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /[\u{e0000}-\u{e0fff}]|[\ufe00-\ufe0e]|[\u3164\u115f\u00ad\u200b\ue000]|(?!\r\n)[\0-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|\x1b(?!\[\d+(?:;\d+)*m)/u;

let line: CommandLine;
const here = (...args: string[]) => runInside(line.project, args);

beforeAll(async () => {
  line = await CommandLine.build();
  await here("init", "--agent", "none");
  await here("goal", "new", "g", `Ship ${EVIL}`);
  await here("task", "add", `Cart ${EVIL}`, "--wanted", EVIL);
  await here("task", "claim", "1");
  await here("block", "add", EVIL, "--everything");
  await here("fact", "port", `"${TURNED}"`, "--source", EVIL);
  await here("task", "add", `${EMOJI} ${PERSIAN}`);
  await here("decide", EVIL, "--context", EVIL, "--reason", EVIL);
});
afterAll(() => line.remove());

test.each([
  ["status"],
  ["task", "list"],
  ["task", "show", "1"],
  ["goal", "show"],
  ["goal", "list"],
  ["blockers"],
  ["facts"],
  ["decisions"],
  ["next"],
  ["brief"],
  ["resume"],
])("a page escapes them: %s %s %s", async (...args) => {
  const { code, out } = await runInside(line.project, args, { FORCE_COLOR: "1" });
  expect(code).toBe(0);
  expect(out).not.toMatch(HARMFUL);
});

test("they are shown escaped, not removed, and set no colour", async () => {
  const { out } = await here("blockers");
  expect(out).toContain(
    "keys\\u001b[2J\\u001b[H\\u001b]0;owned\\u0007\\u202egnp.exe\\u2066\\u{e0041}\\u{e0042}" +
      "a\\ufe0f\\ufe01\\u{e0100}\\u3164\\u115f\\u00ad\\u200b\\ue000\\u009b31m\\u000dall is well",
  );
  await here("task", "add", "red \u001b[31mherring");
  expect((await here("task", "list")).out).toContain("red \\u001b[31mherring");
});

test("the fast path of status escapes them, too", async () => {
  const { out } = await line.run(["status"]);
  expect(out).toContain("Ship keys\\u001b[2J");
  expect(out).not.toMatch(HARMFUL);
});

test("an error escapes the arguments that it quotes", async () => {
  const { code, err } = await here("goal", "show", `x${TURNED}`);
  expect(code).not.toBe(0);
  expect(err).toContain("x\\u202egnp.exe");
  expect(err).not.toMatch(HARMFUL);
});

test("JSON is exact", async () => {
  const { out } = await here("blockers", "--json");
  expect(JSON.parse(out).data.blockers[0].description).toBe(EVIL);
});

test("every file in .planning/ is free of them, and emoji and joined letters stay", async () => {
  const folder = join(line.project, ".planning");
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((each) => each.isFile());
  const rendered = files.filter(({ parentPath }) => !parentPath.includes("events"));
  expect(rendered.length).toBeGreaterThan(4);
  for (const { parentPath, name } of rendered) {
    const text = readFileSync(join(parentPath, name), "utf8");
    expect(text.match(HARMFUL), name).toBeNull();
  }
  expect(readFileSync(join(folder, "STATE.md"), "utf8")).toContain(`${EMOJI} ${PERSIAN}`);
  expect((await here("task", "list")).out).toContain(`${EMOJI} ${PERSIAN}`);
});
