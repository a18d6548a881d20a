// Real processes and kills: every file of the folder reads whole, and no acknowledged write is lost.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Holdfast, open } from "../../src/open.ts";
import {
  projectGoal,
  readAgentState,
  readSeal,
  readTaskBoard,
  renderGoal,
} from "../../src/projections/index.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { TestSchema } from "../stores/postgres/schema.ts";

const WAIT = { timeout: 50_000, interval: 1 };
const WRITER = programFile(new URL("./programs/writer.ts", import.meta.url));
const children: ChildProcess[] = [];
const roots: string[] = [];
const schemas: TestSchema[] = [];
afterEach(async () => {
  for (const schema of schemas.splice(0)) await schema.dispose();
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

interface Writer {
  readonly child: ChildProcess;
  readonly acknowledged: string[];
  readonly errors: string[];
  readonly ready: Promise<void>;
  readonly ended: Promise<unknown>;
}

function startWriter(
  store: string,
  root: string,
  name: string,
  count: number,
  everyMs: number,
  when: "told" | "at once",
): Writer {
  const args = [WRITER, store, root, name, String(count), String(everyMs), when];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "pipe"] });
  children.push(child);
  // A process that has written everything no longer reads its input.
  child.stdin?.on("error", () => undefined);
  const acknowledged: string[] = [];
  const errors: string[] = [];
  let rest = "";
  const ready = new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`${name} ended before it was ready: ${errors.join("")}`)));
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) line === "ready" ? resolve() : acknowledged.push(line);
    });
  });
  ready.catch(() => undefined);
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => errors.push(chunk));
  return { child, acknowledged, errors, ready, ended: once(child, "close") };
}

type Kind = "sqlite" | "files" | "postgres";

/** The address of a store of that kind. */
function addressOf(kind: Kind, root: string): string {
  if (kind === "sqlite") return join(root, "store.db");
  if (kind === "files") return join(root, "store/");
  const schema = new TestSchema();
  schemas.push(schema);
  return `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
}

async function begin(kind: Kind): Promise<{ store: string; root: string; holdfast: Holdfast }> {
  const root = mkdtempSync(join(quickFolder(), "holdfast-processes-"));
  roots.push(root);
  const store = addressOf(kind, root);
  const holdfast = await open(store);
  await holdfast.goal("checkout", { statement: "Ship it", phases: ["one"], tasks: [{ title: "first" }] });
  return { store, root, holdfast };
}

/** Every file in the folder, whole by its own digest. */
function expectWhole(folder: string): number {
  let files = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!/\.(?:md|json)$/.test(name)) continue;
    files++;
    expect({ name, isIntact: readSeal(readFileSync(join(folder, name), "utf8")).isIntact }).toEqual({
      name,
      isIntact: true,
    });
  }
  return files;
}

const WRITES = process.env["HOLDFAST_FULL"] === "1" ? 200 : 12;
/** So many reads go with each write, however slow the machine is. */
const READS_PER_WRITE = 5;

test.each(["sqlite", "files", "postgres"] as const)(
  "two processes write on %s while a third reads: nothing is lost, reads are whole and never go back",
  async (kind) => {
    const { store, root, holdfast } = await begin(kind);
    const folder = join(root, ".planning");
    const writers = ["a", "b"].map((name) => startWriter(store, root, name, WRITES, 50, "told"));
    await Promise.all(writers.map(({ ready }) => ready));
    let isRunning = true;
    const over = Promise.all(writers.map(({ ended }) => ended)).then(() => {
      isRunning = false;
    });
    let reads = 0;
    let revision = 0;
    while (isRunning) {
      const seal = readSeal(readFileSync(join(folder, "STATE.md"), "utf8"));
      expect(seal.isIntact).toBe(true);
      expect(seal.revision).toBeGreaterThanOrEqual(revision);
      revision = seal.revision ?? 0;
      if (reads % 10 === 0) {
        await readTaskBoard(readFileSync(join(folder, "task_board.json"), "utf8"));
        await readAgentState(readFileSync(join(folder, "agent_state.json"), "utf8"));
      }
      reads++;
      if (reads % READS_PER_WRITE === 0) for (const { child } of writers) child.stdin?.write("go on\n");
      await pause(5);
    }
    await over;
    expect(writers.map(({ errors }) => errors.join(""))).toEqual(["", ""]);
    const goal = await holdfast.goal("checkout");
    const state = await readAgentState(readFileSync(join(folder, "agent_state.json"), "utf8"));
    const wanted = writers.flatMap(({ acknowledged }) => acknowledged).sort();
    expect(wanted).toHaveLength(2 * WRITES);
    expect(Object.keys(state["confirmed_facts"] as object).sort()).toEqual(wanted);
    expect(state["revision"]).toBe(goal.seq);
    for (const { path, text } of renderGoal(goal.state, goal.seq).files) {
      expect(readFileSync(join(folder, path), "utf8")).toBe(text);
    }
    expect(reads).toBeGreaterThan(50);
    expect(readdirSync(join(folder, "events")).length).toBeLessThan(60);
    await holdfast.close();
  },
  180_000,
);

describe("a writer that is killed while it renders", () => {
  test("leaves whole files, no false edit, and loses nothing", async () => {
    const { store, root, holdfast } = await begin("sqlite");
    const folder = join(root, ".planning");
    const acknowledged: string[] = [];
    for (let round = 0; round < 4; round++) {
      const writer = startWriter(store, root, `r${round}`, 1_000, 0, "at once");
      await writer.ready;
      await vi.waitFor(() => expect(writer.acknowledged.length).toBeGreaterThanOrEqual(round), WAIT);
      await pause(5 + 20 * round);
      writer.child.kill("SIGKILL");
      await writer.ended;
      acknowledged.push(...writer.acknowledged);
      expect(expectWhole(folder)).toBeGreaterThanOrEqual(3);
    }
    expect(acknowledged.length).toBeGreaterThan(0);
    const goal = await holdfast.goal("checkout", { root });
    const projected = await projectGoal(goal, { auto: false });
    const report = await projected.sync();
    expect(report).toMatchObject({ edits: [], ahead: [], written: [] });
    for (const key of acknowledged) expect(goal.state.facts.has(key)).toBe(true);
    for (const { path, text } of renderGoal(goal.state, goal.seq).files) {
      expect(readFileSync(join(folder, path), "utf8")).toBe(text);
    }
    const left = readdirSync(folder, { recursive: true, encoding: "utf8" });
    expect(left.filter((name) => /\.tmp$|\.unread-/.test(name))).toEqual([]);
    await holdfast.close();
  }, 120_000);
});
