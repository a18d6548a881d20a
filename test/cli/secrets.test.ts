// Secrets do not go to git by themselves: what hooks and evidence put into `.planning/` is redacted.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findSecret, redactSecrets } from "../../src/model/secrets.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

/** Split, so that no scanner of this repository takes them for real ones. */
const part = (...parts: string[]): string => parts.join("");
const LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
const SECRETS: Record<string, string> = {
  Anthropic: part("sk-", "ant-api03-", LETTERS),
  Stripe: part("sk_", "live_", LETTERS),
  "GitHub, classic": part("ghp", "_", LETTERS),
  "GitHub, fine-grained": part("github", "_pat_", LETTERS),
  GitLab: part("glpat", "-", LETTERS),
  AWS: part("AKIA", "ABCDEFGHIJKLMNOP"),
  Slack: part("xoxb", "-123456789012-", LETTERS),
  Google: part("AIza", LETTERS),
  npm: part("npm", "_", LETTERS),
  JWT: part("eyJ", "hbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxIn0.", LETTERS),
  PEM: part("-----BEGIN RSA PRIVATE", " KEY-----\nMIIE", LETTERS, "\n-----END RSA PRIVATE", " KEY-----"),
};
const INSIDE: Record<string, [text: string, secret: string]> = {
  "a variable": ["STRIPE_KEY=hunter2hunter2 ./deploy", "hunter2"],
  "a quoted variable": ["export DB_PASSWORD='hun ter2' && x", "ter2"],
  "an option": ["deploy --api-token hunter2hunter2 now", "hunter2"],
  "an option with =": ["deploy --password=hunter2 now", "hunter2"],
  "an address": ["psql postgres://ann:hunter2@db/app", "hunter2"],
  "a header": ['curl -H "Authorization: Bearer hunter2hunter2hunter2"', "hunter2"],
  "a header of a key": ["x-api-key: hunter2hunter2", "hunter2"],
  curl: ["curl -u ann:hunter2 https://x", "hunter2"],
};

test.each(Object.entries(SECRETS))("a secret of %s is recognised in any text", (_, secret) => {
  const text = redactSecrets(`it failed with ${secret} (401)`);
  expect(text).toBe("it failed with [redacted] (401)");
  expect(findSecret(`{"reason":"${secret}"}`)).not.toBeNull();
  expect(findSecret(text), "what was redacted is no secret").toBeNull();
});

test.each(Object.entries(INSIDE))("a secret in %s is recognised, and the rest stays", (_, [text, secret]) => {
  const redacted = redactSecrets(text);
  expect(redacted).not.toContain(secret);
  expect(redacted).toContain("[redacted]");
  expect(redacted.split("[redacted]")[0]).toBe(text.slice(0, redacted.indexOf("[redacted]")));
  expect(findSecret(redacted)).toBeNull();
});

test.each([
  "npm test -- --keyword=login",
  "the primary key = id",
  "sk-learn and task-list",
  "https://example.com:8080/a@b",
  "sort --key=2,2",
  "The token budget is 2000",
  "monkey=banana-split",
])("ordinary text stays: %s", (text) => {
  expect(redactSecrets(text)).toBe(text);
});

test("1 MB of hostile text is searched in linear time", () => {
  const bits = [
    "sk-",
    "eyJ-",
    "a_",
    "-----BEGIN ",
    "KEY=",
    "--a-",
    "Bearer ",
    "a://",
    "ghp_",
    '="',
    "x".repeat(99),
  ];
  for (const bit of bits) {
    const costOf = (bytes: number): number => {
      const text = bit.repeat(Math.ceil(bytes / bit.length));
      const { user } = process.cpuUsage();
      redactSecrets(text);
      return process.cpuUsage().user - user;
    };
    costOf(10_000);
    expect(costOf(1_000_000), JSON.stringify(bit)).toBeLessThan(2_000_000);
  }
});

test("neither a failed session nor a command that ran leaves its key in .planning/", async () => {
  const project = line.newProject();
  const secret = SECRETS["Anthropic"] ?? "";
  await runInside(project, ["init", "--agent", "none"]);
  await runInside(project, ["goal", "new", "checkout", "Ship it"]);
  await runInside(project, ["task", "add", "One"]);
  await runInside(project, ["task", "claim", "T-001", "--by", "w", "--role", "worker"]);
  const ran = ["--command", `STRIPE_KEY=hunter2hunter2 ./deploy ${secret}`];
  await runInside(project, ["task", "submit", "T-001", "--by", "w", "--role", "worker", ...ran]);
  for (const [event, more] of [
    ["session-start", { source: "startup" }],
    ["stop-failure", { error: `invalid x-api-key ${secret}` }],
  ] as const) {
    const input = JSON.stringify({ cwd: project, session_id: "a", ...more });
    await line.run(["hook", "claude", event], { cwd: project, input });
  }
  await line.run(["hook", "ingest"], { cwd: project });
  const files = readdirSync(join(project, ".planning"), { withFileTypes: true, recursive: true });
  const texts = files.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  const all = texts.map((each) => readFileSync(each, "utf8")).join("\n");
  expect(all).toContain("the agent stopped: invalid x-api-key [redacted]");
  expect(all).toContain("STRIPE_KEY=[redacted] ./deploy [redacted]");
  expect(all).not.toContain(secret);
  expect(all).not.toContain("hunter2");
  expect((await runInside(project, ["doctor"])).out).not.toContain("secrets");
  writeFileSync(join(project, ".planning/notes.md"), `my key: ${secret}\n`);
  const { code, out } = await runInside(project, ["doctor"]);
  expect(code).toBe(5);
  expect(out).toContain(".planning/notes.md holds an API key");
  expect(out).not.toContain(secret);
});
