// Every example shows what it claims and leaves nothing behind. Examples and recorder are bundled, because
// each start through a TypeScript loader costs a second.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { type Run, root, run } from "./running.ts";
import { SHOWN_BY } from "./shown-by.ts";
import type { Shown } from "./together.ts";

const scratch = mkdtempSync(join(quickFolder(), "holdfast-examples-test-"));
const temporary = mkdtempSync(join(scratch, "tmp-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const examples = readdirSync(join(root, "examples"))
  .filter((file) => file.endsWith(".ts") && file !== "temporary-folder.ts")
  .map((file) => basename(file, ".ts"));

const fileOf = (name: string): string => programFile(join(root, "examples", `${name}.ts`));

/** With the arguments of Node. */
const recorded = (name: string): string[] => [
  "--import",
  pathToFileURL(programFile(new URL("./recorder.ts", import.meta.url))).href,
  fileOf(name),
];

/** The lines that each example must print, in any place of its output. */
const CLAIMS: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  quickstart: ["done: Order 4711 is paid.", "spent $0.01 in 2 turns; version 2 is on disk"],
  "own-loop": [
    "first run:  4 messages, version 1, open calls 0",
    "second run: 4 messages, version 1, open calls 0",
    "first call:  completed",
    "second call:  completed, replayed",
    "mails sent: 2",
  ],
  "ai-sdk": [
    "first run: the network is down; charged 1 time",
    "second run: Order 4711 is paid. 50 tokens; charged 1 time",
    "third run: Order 4711 is paid. 50 tokens; the model was asked 2 times in all",
  ],
  "claude-agent-sdk": [
    "first run: the machine crashes",
    /^second run: \[holdfast\] Not run again\. It ran at .*receipt 1$/m,
    "payments after it: 1",
  ],
  langgraph: [
    "waiting for an answer; charged 1 time",
    "receipt 1 for key hf_, yes, ship it; charged 1 time",
    "paid at a Date",
    "checkpoints dropped: 2",
    "after deleting: undefined",
  ],
  payment: [
    /^fine +completed +attempts 1, settled by execute/m,
    /^landed +completed +attempts 1, settled by verify/m,
    /^refused +completed +attempts 2, settled by execute/m,
    /^lagging +completed +attempts 1, settled by verify/m,
    /^opaque +completed +attempts 2, settled by execute/m,
    /^declined +failed +attempts 1, settled by definite/m,
    "fine, from another session: completed, replayed true",
    "charged 5 times for 5 orders",
  ],
  "sub-agents": [
    "done: The piece on tides is ready.",
    "sessions: editor active, sub-agent completed",
    "the sub-agent broke down: true; searches bought: 1; spent by both: $0.7",
  ],
  "trial-crash-and-resume": [
    "killed (SIGKILL) in turn 5 with 3 calls under way",
    "resumed: 10 messages, version 4, under way 3",
    /^ {2}mail +completed, by verify, attempt 1$/m,
    /^ {2}index +completed, by execute, attempt 2$/m,
    /^ {2}fax +waiting, not guessed, attempt 1$/m,
    "a person answers fax: landed",
    "done: All five turns are done.",
    "transcript before the kill is unchanged: true",
    "mail sent 1×, fax sent 1×",
  ],
  "trial-duplicate-email": [
    "Write to ann           → replayed 0, the model reads: sent",
    /^Write once more to ann → replayed 1, the model reads: \[not run again: .*\] sent$/m,
    "Write to bob           → replayed 0, the model reads: sent",
    "mails in the outbox: 2",
  ],
  "trial-corruption-audit": [
    "versions: 1, 2, 3, 4, 5",
    "  version 3: 6 messages, $0.03 spent",
    "from 2 to 4: 4 messages added, 4 the same",
    "after deleting 3: 1, 2, 4, 5, 10 messages",
    "  session audited has no version 3. List its versions. Deleted ones are not kept.",
    "resumed all the same: answer 6, version 6",
    "problems found: 0",
    /^noticed in .*session\/audited: events .* do not match their checksum$/m,
  ],
  "time-travel": [
    "versions: brief, 2",
    "save: version 3, 1 message removed",
    "compacted: 1 message, before it 2",
    "fork: 2 messages of version 1",
    "publish from the fork: failed",
    "publish once allowed:  completed",
    "after deleting 1: 2, 3, 4",
    "from outside: version 2 has 3 messages, then 1 removed",
  ],
  operator: [
    "waits for a person: page of night-shift, waiting",
    "worker: done, paged 2 times",
    "worker: budget",
    "worker: done, Yes, all is well.",
    "night-shift: 6 messages, held by worker-1",
    "worker: cancelled",
    "sessions: night-shift cancelled, old-2 active",
    "problems in store.db: 0",
  ],
  "session-life": [
    'Release 2 {"ticket":"R-2"}: completed, next Ship it',
    "spent $1.25 of $5; resumed version 0",
    "now cancelled",
    "session release was cancelled by desk: nobody wants it. Call session.reopen() to continue it.",
    "session held is held by first, which is this very process",
  ],
  encryption: ["in the file: false", "with the key: A visit to the doctor", "without it: CODEC_UNKNOWN"],
  artifacts: [
    "stored once: true",
    "read back: 9000 bytes",
    "collected today: 0",
    "collected two days later: 1",
    "the picture is still there: true",
  ],
  failures: [
    "too-big  failed: it does not fit",
    "by-boat  waiting: the boat is still at sea",
    "settled by a later run: 1",
    "by-boat  completed: by-boat arrived",
    '{"a":"é","b":[1,0]}',
    "ARGS_NOT_JSON: args of ship: $.at is a Date, which JSON cannot hold",
    "INPUT_INVALID, retryable false: a parcel needs a name. Give it one.",
  ],
  goal: [
    "T-900 is T-003: token rotation",
    "position: Schema, T-001; ready: T-001",
    "decided: D-002 jose",
    "retracted: decision.made of D-003",
    "to confirm: 0",
    "goals: checkout",
    "goals after the erase: 0",
    'facts: {"db":"postgres 17"}',
    "auth.ts: DRIFTED",
    "blocked: T-001",
    "sessions: mon ended, tue ended, wed crashed",
    "the briefing says what is next: true",
    "phases completed: 2 of 2",
    "every change is an event: true",
  ],
  "goal-tasks": [
    "still ours: true",
    "schema done",
    "tokens failed",
    "tokens open",
    "docs open, blocked by B-001",
    "the zombie hears LEASE_LOST; deploy open",
    "report submitted",
    "1 of 5 done",
  ],
  "run-with-checkpoints": [
    "first run:  stopped, 2 of 3 tasks",
    "second run: done, 3 of 3 tasks",
    "executed: T-001, T-001, T-002, T-003",
  ],
  "repo-memory": [
    "- D-001 (technology) JWT library: jose (because: typed)",
    "the agent waits: goal checkout: a person edited STATE.md a moment ago",
    "ann: T-002 done; T-002 is done",
    "ready: Resuming from Phase 1, Plan 1, Task: token rotation; plan: rotate on every use",
    "review: src/auth.ts DRIFTED",
    "imported: index pages; the bar says 50%, the tasks say 0%",
    'version 1 became 2: {"schema_version":2,"risks":["no keys"]}',
    "committed: no keys, late",
    "committed: late",
    "refused: agent_state.json: $.risks is null, must be array",
    /billing-migrations.ts billing-state.ts$/m,
  ],
  supervisor: [
    "ready: 1, crashed: 0",
    "worker: died",
    "put back: T-001, was charging the card",
    "settled: charge-4711 completed",
    "worker: done",
    "task: done; charged 1×",
    "sessions: agent-1 crashed, agent-2 ended",
  ],
  moving: [
    "STREAM_BUSY: Stop these workers, or wait until their leases expire, then try again. Nothing was changed.",
    "moved 1 stream and 1 key",
    "undone: laptop.db takes writes again",
    /^a forgotten worker: laptop.db: this store has moved to sqlite .*server.db$/m,
    "asked again there: completed, replayed true; charged 1×",
  ],
  postgres: [
    "done: Order 4711 is paid.",
    "the program's own query: order-4711 active",
    "the program's pool is still open: true",
  ],
  "own-stream": [
    "both want 2 of 3: false, true",
    "left: 1 and 1, seq 2",
    "at seq 1: 3",
    'shelf-b 2 stock.changed {"part":"nut","by":7}',
    "recorded and sound: 2",
    "namespaces: acme, default",
    "problems: 0",
    "shelf-b: removed, then gone",
  ],
};

/**
 * These examples depend on real time: an agent that pauses longer than its short lease loses it, and the
 * quiet period after a person's edit ends. A paused machine can break them, so they are retried.
 */
const TIMED = ["trial-crash-and-resume", "repo-memory"];

async function runTimed(name: string, env: Record<string, string>): Promise<Run> {
  const shows = ({ output }: Run): boolean =>
    (CLAIMS[name] ?? []).every((claim) =>
      typeof claim === "string" ? output.split("\n").includes(claim) : claim.test(output),
    );
  let ran = await run(recorded(name), temporary, env);
  for (let turn = 0; turn < 3 && TIMED.includes(name) && !shows(ran); turn++) {
    for (const left of readdirSync(temporary))
      rmSync(join(temporary, left), { recursive: true, force: true });
    ran = await run(recorded(name), temporary, env);
  }
  return ran;
}

/**
 * These start themselves again, end the process, or depend on time. HOLDFAST_FULL=1 runs every example as a
 * process.
 */
const ALONE = process.env["HOLDFAST_FULL"] ? examples : [...TIMED, "supervisor", "postgres"];

let together: Run;
const shown = new Map<string, Shown>();
beforeAll(async () => {
  const files = examples.filter((name) => !ALONE.includes(name)).map(fileOf);
  if (files.length === 0) return;
  const notes = join(scratch, "together.jsonl");
  together = await run(
    [programFile(new URL("./together.ts", import.meta.url)), notes, ...files],
    temporary,
    {},
  );
  if (!existsSync(notes)) return;
  for (const line of readFileSync(notes, "utf8").split("\n").filter(Boolean)) {
    const each = JSON.parse(line) as Shown;
    shown.set(each.file, each);
  }
});

async function shownBy(name: string): Promise<Run & Pick<Shown, "calls">> {
  if (!ALONE.includes(name))
    return { ...together, ...(shown.get(fileOf(name)) ?? { output: "", calls: [] }) };
  const record = join(scratch, `${name}.calls`);
  const ran = await runTimed(name, { HOLDFAST_TEST_RECORD: record });
  return { ...ran, calls: existsSync(record) ? readFileSync(record, "utf8").split("\n") : [] };
}

describe.each(Object.entries(CLAIMS))("examples/%s.ts", (name, claims) => {
  test("prints what it claims, calls the methods it is listed for, and leaves nothing behind", async () => {
    const { errors, code, output, calls } = await shownBy(name);
    expect(errors).toBe("");
    expect(code).toBe(0);
    const lines = output.split("\n");
    for (const claim of claims) {
      if (typeof claim === "string") expect(lines).toContain(claim);
      else expect(output).toMatch(claim);
    }
    expect(readdirSync(temporary).filter((left) => left.startsWith("holdfast"))).toEqual([]);

    const text = readFileSync(join(root, "examples", `${name}.ts`), "utf8");
    const named = Object.keys(SHOWN_BY).filter((each) => SHOWN_BY[each] === name);
    for (const each of named.filter((one) => one.includes("."))) expect(calls).toContain(each);
    for (const each of named.filter((one) => !one.includes(".")))
      expect(text).toMatch(new RegExp(`\\b${each}\\(`));
  });
});

test("every example has tested claims", () => {
  expect(Object.keys(CLAIMS).sort()).toEqual([...examples].sort());
});

test("examples/README.md names every example", () => {
  const page = readFileSync(join(root, "examples/README.md"), "utf8");
  const named = [...page.matchAll(/\[([\w-]+)\.ts\]\(\1\.ts\)/g)].map(([, name]) => name);
  expect(named.sort()).toEqual([...examples].sort());
});
