// Every public act of the library is an operation, or has a reason here why it is none. So a person can do it
// from the command line and, unless the operation is for people, an agent over MCP.

import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { COMMANDS, GROUPS, HEADINGS } from "../../src/cli/commands.ts";
import { Goal, Goals } from "../../src/goal/index.ts";
import { loadOfferedTools } from "../../src/mcp/index.ts";
import { Holdfast, open } from "../../src/open.ts";
import { OPERATIONS } from "../../src/operations/index.ts";
import { OpenCalls, Session, Sessions } from "../../src/session/index.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";
import { removeProject } from "../remove-project.ts";

/** In place of an operation: why there is none. */
const because = (reason: string): { readonly reason: string } => ({ reason });

const OWNER = because("part of the program that runs the session, which holds its lease");
const READ = because("reads the open handle; the operations that show goals and sessions print it");
const LIFE = because("opens, closes or watches a handle of this process");
const BYTES = because("bytes of a program; a message refers to them");

const ACTS: Readonly<Record<string, Readonly<Record<string, string | { readonly reason: string }>>>> = {
  Holdfast: {
    session: LIFE,
    run: OWNER,
    goal: "goal new",
    supervise: "supervise",
    superviseOnce: "supervise",
    putArtifact: BYTES,
    getArtifact: BYTES,
    collectArtifacts: "prune",
    check: "check",
    close: LIFE,
    vacuum: "vacuum",
  },
  Sessions: {
    list: "session list",
    get: "session show",
    at: "session at",
    diff: "session diff",
    fork: "session fork",
    cancel: "session cancel",
    deleteVersion: "session drop",
    retry: "session retry",
    setEffects: "session effects",
    prompt: "session prompt",
    raiseBudget: "session budget",
    prune: "prune",
    erase: "session erase",
  },
  Session: {
    run: OWNER,
    append: OWNER,
    calls: OWNER,
    call: OWNER,
    settle: OWNER,
    save: OWNER,
    compact: OWNER,
    checkpoint: OWNER,
    deleteVersion: "session drop",
    at: "session at",
    diff: "session diff",
    fork: "session fork",
    allowEffects: "session effects",
    setPlan: OWNER,
    limit: "session budget",
    spend: OWNER,
    describe: OWNER,
    complete: OWNER,
    fail: OWNER,
    cancel: "session cancel",
    reopen: OWNER,
    refresh: LIFE,
    close: LIFE,
  },
  OpenCalls: { list: "calls", resolve: "resolve", approve: "approve", deny: "deny" },
  Goals: { list: "goal list", prune: "goal prune", erase: "goal erase" },
  Goal: {
    refresh: LIFE,
    watch: LIFE,
    close: LIFE,
    events: "goal log",
    at: "goal show",
    survey: READ,
    position: READ,
    progress: READ,
    runState: READ,
    chain: READ,
    task: "task show",
    decisions: "decisions",
    next: "next",
    briefing: "brief",
    checkFiles: "resume",
    describe: "goal edit",
    addPhase: "phase add",
    addPlan: "plan add",
    addTask: "task add",
    addTasks: "task add",
    editTask: "task edit",
    retry: "task retry",
    drop: "task drop",
    reopen: "task reopen",
    aliasTask: "task alias",
    move: "goal move",
    completePhase: "phase complete",
    claim: "task claim",
    noteProgress: "task start",
    submit: "task submit",
    fail: "task fail",
    release: "task release",
    blockTask: "task block",
    verify: "task verify",
    reset: "task release",
    block: "block add",
    identify: "block confirm",
    bypass: "block bypass",
    resolve: "block resolve",
    decide: "decide",
    supersede: "decide",
    fact: "fact",
    forget: "forget",
    retract: "retract",
    confirm: "review",
    recordFiles: "remember files",
    implementation: "built",
    ask: "ask",
    answer: "answer",
    assume: "assume",
    settle: "confirm",
    setNext: "goal next",
    recordError: "error",
    startSession: "resume",
    noteSession: "note",
    endSession: "finish",
    handoff: "handoff",
    crashSession: "supervise",
  },
};

const CLASSES = { Holdfast, Sessions, Session, OpenCalls, Goals, Goal };
const FILES: Readonly<Record<keyof typeof CLASSES, string>> = {
  Holdfast: "open.ts",
  Sessions: "session/sessions.ts",
  Session: "session/session.ts",
  OpenCalls: "session/open-calls.ts",
  Goals: "goal/goals.ts",
  Goal: "goal/goal.ts",
};

/** Public methods. TypeScript's `private` is gone at run time, so the source says which are. */
function actsOf(name: keyof typeof CLASSES): string[] {
  const source = readFileSync(new URL(`../../src/${FILES[name]}`, import.meta.url), "utf8");
  const fields = Object.getOwnPropertyDescriptors(CLASSES[name].prototype);
  return Object.entries(fields)
    .filter(([act, { value }]) => typeof value === "function" && act !== "constructor")
    .map(([act]) => act)
    .filter((act) => !new RegExp(`^  private (?:async )?\\*?${act}\\b`, "m").test(source));
}

test.each(Object.keys(CLASSES))("every public act of %s is an operation, or says why not", (name) => {
  const acts = ACTS[name] ?? {};
  const missing = actsOf(name as keyof typeof CLASSES).filter((act) => acts[act] === undefined);
  expect(missing, "give each an operation, or a reason here").toEqual([]);
  for (const [act, operation] of Object.entries(acts)) {
    if (typeof operation !== "string") continue;
    // Acts that another release adds or removes are in no class: the list above would name them.
    if (!Object.hasOwn(CLASSES[name as keyof typeof CLASSES].prototype, act)) continue;
    expect(OPERATIONS.has(operation), `${name}.${act}: ${operation}`).toBe(true);
  }
});

const MACHINE = because("sets up or looks after a machine: not an agent's work");
const PAGE = because("a page of the same records over MCP: `session_log`, `session_show`");

/** Operations for both that agents do not get as tools. */
const NOT_OFFERED: Readonly<Record<string, { readonly reason: string }>> = {
  init: MACHINE,
  "schema new": MACHINE,
  "goal use": because("a choice of a worktree; an agent passes `goal`"),
  "session fork": because("a person decides whether a past is lived again"),
  "session event": PAGE,
  "session timeline": PAGE,
  events: because("`goal_log` has the same rows"),
  fleet: MACHINE,
  check: because("looks after a machine; `against` runs a program that a person or CI names"),
  verify: MACHINE,
  doctor: MACHINE,
  new: MACHINE,
  explain: because("the error that the agent got has its hint"),
  rebuild: MACHINE,
  migrate: MACHINE,
  export: MACHINE,
  import: MACHINE,
  backup: MACHINE,
  review: because("a person reviews what others brought"),
};

test("every operation has a command; agents are offered all that are not a person's, or it says why not", async () => {
  const typed = new Set<string>(COMMANDS.map(({ operation }) => operation));
  const offered = new Set((await loadOfferedTools()).map(({ operation }) => operation.name));
  for (const { name, who } of OPERATIONS.values()) {
    expect(typed.has(name), `${name} has no command`).toBe(true);
    if (who !== "both" || offered.has(name)) continue;
    expect(NOT_OFFERED[name], `${name} is neither offered over MCP nor excused here`).toBeDefined();
  }
});

test("the help text has every first word under a heading, at most fifteen under each", () => {
  const under = HEADINGS.flatMap(([, words]) => words);
  const first = [...Object.keys(GROUPS), ...COMMANDS.map(({ words }) => words.split(" ")[0] ?? "")];
  expect([...new Set(first)].filter((word) => !under.includes(word))).toEqual([]);
  for (const [heading, words] of HEADINGS) expect(words.length, heading).toBeLessThanOrEqual(15);
});

test("on the command line: a prompt, a higher limit, a deleted version, a session by its first question", async () => {
  const project = mkdtempSync(join(quickFolder(), "holdfast-parity-"));
  const say = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await runInside(project, args);
    expect({ args, code, err }).toEqual({ args, code: 0, err: "" });
    return out;
  };
  await say("init", "--agent", "none");
  const holdfast = await open(join(project, ".holdfast"));
  const session = await holdfast.session("order");
  await session.limit({ usd: 1 });
  await session.append({ role: "user", blocks: [{ kind: "text", text: "Which order is late?" }] });
  await session.checkpoint();
  await session.checkpoint();
  await holdfast.close();
  expect(await say("session", "list")).toContain("Which order is late?");
  expect(await say("session", "prompt", "order", "and today?")).toMatch(/^queued \S+ for order$/m);
  expect(await say("session", "budget", "order", "--usd", "5")).toContain('{"usd":5}');
  await say("session", "drop", "order", "1");
  const { data } = JSON.parse(await say("session", "show", "order", "--json"));
  expect(data).toMatchObject({ budget: { limit: { usd: 5 } } });
  expect(JSON.parse(await say("session", "versions", "order", "--json")).data.versions).toMatchObject([
    { version: 2 },
  ]);
  const none = await runInside(project, ["session", "drop", "order", "1"]);
  expect(none).toMatchObject({ code: 3, err: expect.stringContaining("session versions order") });
  removeProject(project);
});
