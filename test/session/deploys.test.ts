/** A deploy sends SIGTERM: the call in flight is finished, no other starts, and nobody has to answer anything. */

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, describe, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { callBlock, counting, fatal, openBench, script } from "../ledger/bench.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { storeSubjects } from "../subjects.ts";

const folder = mkdtempSync(join(quickFolder(), "holdfast-deploys-"));
const subjects = storeSubjects();
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all(subjects.map((subject) => subject.dispose()));
});

/** Runs the program, and lets its call finish once the process was asked to end. */
async function deployed(name: string, mode: string): Promise<string[]> {
  const [store, world] = [join(folder, `${name}.db`), join(folder, name)];
  const file = programFile(new URL("./programs/deployed.ts", import.meta.url));
  const child = spawn(process.execPath, [file, store, world, mode], { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (line === "begun 1") child.kill("SIGTERM");
    if (line === "terminating" && mode !== "late") writeFileSync(`${world}.go`, "");
  }
  return lines;
}

describe.each(["drain", "close"])("SIGTERM with %s", (mode) => {
  test("finishes the call in flight, starts no other, and leaves no work for a person", async () => {
    const lines = await deployed(mode, mode);
    expect(lines).toEqual(["begun 1", "terminating", "result paused drained"]);
    expect(readFileSync(join(folder, mode), "utf8")).toBe("charged 1\n");
    const holdfast = await open(join(folder, `${mode}.db`));
    const { calls } = await holdfast.sessions.get("orders");
    expect(calls.map(({ callId, status }) => `${callId} ${status}`)).toEqual(["c1 completed"]);
    await holdfast.close();
    expect(await deployed(mode, "next")).toEqual(["begun 2", "result done answered"]);
    expect(readFileSync(join(folder, mode), "utf8")).toBe("charged 1\ncharged 2\n");
  });
});

test("a call that takes longer than `withinMs` is cut off", async () => {
  expect(await deployed("late", "late")).toEqual(["begun 1", "terminating", "result SESSION_CLOSED"]);
});

describe.each(subjects)("draining on '$name'", (subject) => {
  test("a drained run answers if the answer was in flight, and starts nothing else", async () => {
    const bench = await openBench(subject);
    const world = { effects: [] as string[] };
    const deploy = new AbortController();
    const session = await bench.first.session();
    const first = counting(world, "first", {
      execute: () => {
        world.effects.push("first");
        deploy.abort();
      },
    });
    const second = counting(world, "second");
    const model = script([callBlock("c1", "first")], [callBlock("c2", "second")], "done");
    const run = () => session.run({ model, tools: [first, second], prompt: "go", drain: deploy.signal });
    expect(await run()).toMatchObject({ status: "paused", reason: "drained", waiting: [] });
    expect([world.effects, model.asked]).toEqual([["first"], 1]);
    expect(await run()).toMatchObject({ status: "paused", reason: "drained" });
    const rest = await session.run({ model, tools: [first, second], prompt: "go" });
    expect([rest.status, world.effects]).toEqual(["done", ["first", "second {}"]]);
    await bench.dispose();
  });

  test("a session that is closing starts no call of one's own loop", async () => {
    const bench = await openBench(subject);
    const world = { effects: [] as string[] };
    const session = await bench.first.session();
    const dying = fatal(world, "slow");
    void session.call({ tool: dying.tool, args: {}, callId: "c1" }).catch(() => undefined);
    await dying.reached;
    const closing = session.close({ finish: "call", withinMs: 200 });
    const late = await session.call({ tool: counting(world, "late"), args: {}, callId: "c2" });
    expect(late).toMatchObject({ status: "waiting" });
    await closing;
    expect(world.effects).toEqual(["slow {}"]);
    expect((await bench.first.holdfast.sessions.get("alpha")).calls.map(({ callId }) => callId)).toEqual([
      "c1",
    ]);
    await bench.dispose();
  });
});
