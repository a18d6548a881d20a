// With --json every command answers in one envelope, and its data matches the schema of the operation.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { open } from "../../src/index.ts";
import { OPERATIONS } from "../../src/operations/index.ts";
import { counting } from "../ledger/bench.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

/** Starts many processes in sequence, which is slow on a busy machine. */
const LONG_MS = 180_000;

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  writeFileSync(join(line.project, "users.sql"), "create table users ()");
  writeFileSync(join(line.project, "holdfast.config.json"), "{}");
  writeFileSync(join(line.project, "old.md"), "title: Old work\nnext_action: continue\n");
});
afterAll(() => line.remove());

const person = ["--by", "ann", "--why", "it is over"];

const KEY = `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${"B".repeat(43)}`;

/** Ordered so that each command has data to return. */
const WALK: readonly (readonly string[] | "killed agent" | "agent" | "unapproved calls")[] = [
  ["init", "--dry-run"],
  ["init"],
  ["init", "--remove", "--agent", "gemini"],
  ["status"],
  ["doctor"],
  ["explain", "store-busy"],
  ["new", "worker", "my-worker"],
  ["trust", "--remove"],
  ["sign", "--off"],
  ["signer", "add", "ann", KEY],
  ["signer", "list"],
  ["signer", "remove", "ann"],
  ["approver", "add", "ann", KEY],
  ["approver", "list"],
  ["approver", "remove", "ann"],
  ["migrate", "--dry-run"],
  ["schema", "new", "billing", "--folder", "memory", "--state", "tier:free|paid", "amount:number"],
  ["goal", "new", "checkout", "Ship the checkout", "--phase", "Schema", "API", "--ttl", "10d"],
  ["goal", "list"],
  ["goal", "use", "check"],
  ["task", "add", "users table", "--wanted", "it migrates", "--file", "users.sql"],
  ["task", "add", "orders table", "--depends-on", "1", "--wave", "2"],
  ["task", "add", "look at it", "--reviews", "1", "--wanted", "reads well"],
  ["task", "edit", "2", "--title", "table of orders", "--depends-on", "1"],
  ["task", "alias", "2", "T-142"],
  ["phase", "add", "Launch", "--plan", "rehearsal"],
  ["plan", "add", "Launch", "go live"],
  ["phase", "complete", "Launch"],
  ["goal", "edit", "--title", "the check", "--ttl", "90d"],
  ["goal", "next", "1"],
  ["next"],
  ["task", "claim", "1", "--by", "bob"],
  ["task", "start", "1", "at it", "--by", "bob"],
  ["task", "release", "1", "--by", "bob", "--why", "lunch"],
  ["task", "claim", "1", "--by", "bob"],
  ["task", "fail", "1", "no disk", "--by", "bob"],
  ["task", "retry", "1", "--why", "there is one now"],
  ["task", "claim", "1", "--by", "bob"],
  ["task", "submit", "1", "--by", "bob", "--file", "users.sql", "--command", "npm test"],
  ["task", "show", "1"],
  ["task", "verify", "1", "--reject", "--why", "not yet"],
  ["task", "drop", "3", "--why", "nobody reads it"],
  ["task", "reopen", "3", "--why", "somebody does"],
  ["task", "block", "2", "the database is down"],
  ["task", "list", "--all"],
  ["block", "add", "no review", "--phase", "2"],
  ["block", "add", "perhaps slow", "--task", "2", "--report-only"],
  ["block", "confirm", "3"],
  ["block", "bypass", "1", "--workaround", "use sqlite", "--follow-up", "go back to postgres"],
  ["block", "resolve", "B-002", "--resolution", "it was there"],
  ["block", "list", "--all"],
  ["blockers"],
  ["decide", "jose", "--context", "JWT", "--reason", "typed", "--alternative", "jsonwebtoken: untyped"],
  ["decisions", "jose"],
  ["events", "--limit", "3"],
  ["retract", "D-001", "--why", "nobody wrote it"],
  ["fact", "ports", "[80,443]", "--source", "compose.yml"],
  ["facts", "ports"],
  ["forget", "ports", "--why", "they moved"],
  ["events", "--limit", "5"],
  ["review"],
  ["remember", "users.sql", "--task", "1"],
  ["built", "the table of users", "--file", "users.sql"],
  ["ask", "which currency?"],
  ["answer", "1", "euro"],
  ["questions", "--all"],
  ["assume", "the vendor rounds up"],
  ["assume", "amounts are in cents"],
  ["confirm", "1", "its documentation says so"],
  ["refute", "A-002", "the sandbox returned 12.5"],
  ["assumptions", "--all"],
  ["error", "the disk was full", "--task", "1"],
  ["goal", "move", "API"],
  ["goal", "show", "check"],
  ["goal", "show", "check", "--at", "2"],
  ["goal", "log", "check", "--newest", "--limit", "5"],
  ["brief", "--tokens", "300"],
  ["resume", "--session", "night"],
  ["note", "going well", "--session", "night", "--issue", "two tables instead of one"],
  ["handoff", "--session", "night", "--reason", "tired", "--issue", "slow", "--next", "2"],
  ["resume", "--session", "day"],
  ["finish", "--session", "day", "--completed", "a look at it"],
  "killed agent",
  "agent",
  ["calls", "--open"],
  ["inbox"],
  ["ledger", "c_8fk2"],
  ["fleet"],
  ["resolve", "c_8fk2", "failed", ...person],
  "agent",
  "unapproved calls",
  ["approve", "ask-1", "--args", "{}", "--expires", "1h", ...person],
  ["deny", "ask-2", ...person],
  ["session", "list", "--status", "active"],
  ["session", "show", "order"],
  ["session", "log", "order", "--limit", "5"],
  ["session", "event", "order", "1"],
  ["session", "timeline", "order"],
  ["session", "at", "order", "1"],
  ["session", "versions", "order"],
  ["session", "diff", "order", "1", "2"],
  ["session", "prompt", "order", "and now?"],
  ["session", "budget", "order", "--usd", "50"],
  ["session", "drop", "order", "1"],
  ["session", "fork", "order", "second", "--at", "2"],
  ["session", "effects", "second", "on", ...person],
  ["session", "retry", "second", "--why", "it was looked at"],
  ["session", "cancel", "second", ...person],
  ["session", "erase", "second", "--dry-run"],
  ["prune", "--status", "cancelled", "--dry-run"],
  ["prune", "--status", "cancelled", "--yes"],
  ["supervise", "--once", "--retain", "30d"],
  ["rebuild"],
  ["check"],
  ["vacuum"],
  ["backup", "copy.db"],
  ["restore"],
  ["verify"],
  ["export", "all.jsonl"],
  ["import", "all.jsonl", "--store", "other.db"],
  ["goal", "import", "old.md", "old", "--store", "other.db"],
  ["goal", "prune", "--status", "done", "--dry-run"],
  ["goal", "erase", "old", "--yes", "--store", "other.db"],
  ["move", "--yes", "other.db", "third.db"],
];

test(
  "every command answers in the envelope and matches its schema",
  async () => {
    const seen = new Set<string>();
    for (const words of WALK) {
      if (words === "killed agent") await line.runAgent("charging");
      else if (words === "unapproved calls") await leaveUnapproved();
      else if (words === "agent") expect(await line.runAgent(null)).toMatch(/^(waiting|done)/);
      else seen.add(await answer(words));
    }
    // `test/stores/postgres/tenants.test.ts` has the command that needs a server, `test/encryption/surfaces.test.ts`
    // that which needs a key.
    const elsewhere = ["postgres rls", "rekey"];
    const others = COMMANDS.map(({ words }) => words).filter((words) => !elsewhere.includes(words));
    expect([...seen].sort()).toEqual(others.sort());
  },
  LONG_MS,
);

async function leaveUnapproved(): Promise<void> {
  const holdfast = await open(join(line.project, ".holdfast"));
  const session = await holdfast.session("asks");
  const asking = counting({ effects: [] }, "pay", { needsApproval: true });
  for (const callId of ["ask-1", "ask-2"])
    await session.call({ tool: asking, args: { for: callId }, callId });
  await holdfast.close();
}

async function answer(words: readonly string[]): Promise<string> {
  const { code, out, err } = await runInside(line.project, [...words, "--json"], {
    XDG_CONFIG_HOME: join(line.project, "config"),
  });
  const typed = words.join(" ");
  expect({ typed, code, err }).toEqual({ typed, code: 0, err: "" });
  const { schemaVersion, kind, data, ...rest } = JSON.parse(out);
  expect({ schemaVersion, rest }, typed).toEqual({ schemaVersion: 1, rest: {} });
  const checked = OPERATIONS.get(kind)?.result.safeParse(data);
  expect(checked?.error?.issues ?? [], typed).toEqual([]);
  expect(checked?.success, typed).toBe(true);
  const command = COMMANDS.find((each) => typed === each.words || typed.startsWith(`${each.words} `));
  expect(command?.operation).toBe(kind);
  return command?.words ?? typed;
}

test("the page of commands names every command", () => {
  const page = readFileSync(new URL("../../docs/reference/commands.md", import.meta.url), "utf8");
  const missing = COMMANDS.filter(({ words }) => !page.includes(`\`holdfast ${words}`)).map(
    ({ words }) => words,
  );
  expect(missing).toEqual([]);
});

test("every operation has a command", () => {
  const typed = new Set<string>(COMMANDS.map(({ operation }) => operation));
  expect([...OPERATIONS.keys()].filter((name) => !typed.has(name))).toEqual([]);
});
