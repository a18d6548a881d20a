// `holdfast check --against` with a session's own loop, with forks, and with large results: the copy of a
// session is complete, and the program's model and tools are left alone.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, open, type Session, tool } from "../../src/index.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";

type Program = (session: Session) => unknown;
const shared = globalThis as { rehearsedProgram?: Program };

let folder: string;
let store: string;
let holdfast: Holdfast;
const world: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-rehearsal-"));
  store = join(folder, "store.db");
  writeFileSync(
    join(folder, "agent.mjs"),
    "export default (session) => globalThis.rehearsedProgram(session);",
  );
  holdfast = await open(store);
  world.splice(0);
});
afterEach(async () => {
  await holdfast.close();
  rmSync(folder, { recursive: true, force: true });
  delete shared.rehearsedProgram;
});

const LARGE = "x".repeat(400_000);

/** Returns a result that is stored as an artifact. */
const find = tool({
  name: "find",
  description: "Finds an order",
  effect: "mutate",
  input: z.object({}),
  execute: () => {
    world.push("find");
    return LARGE;
  },
});

const charge = (input: z.ZodType = z.object({})) =>
  tool({
    name: "charge",
    description: "Charges an order",
    effect: "mutate",
    input,
    execute: () => {
      world.push("charge");
      throw new Error("the connection was lost");
    },
  });

const prompt = { id: "pay", text: "Pay" };

/** Finds, then charges; the outcome of the charge is unknown. */
async function leaveOpenCall(): Promise<void> {
  const session = await holdfast.session("s");
  const call = (name: string) => ({ message: { blocks: [{ kind: "tool_call", id: name, name, args: {} }] } });
  const answers = [call("find"), call("charge")];
  const model = () => answers.shift() as never;
  const result = await session.run({ model, tools: [find, charge()], prompt });
  expect(result).toMatchObject({ status: "waiting" });
  await session.close();
}

async function verdicts(program: Program): Promise<Readonly<Record<string, string>>> {
  shared.rehearsedProgram = program;
  const before = [...world];
  const { code, out, err } = await runInside(folder, [
    "check",
    "--against",
    "agent.mjs",
    "--store",
    store,
    "--json",
  ]);
  expect(err).toBe("");
  expect(world).toEqual(before);
  const { sessions } = JSON.parse(out).data as { sessions: { session: string; verdict: string }[] };
  expect(code).toBe(sessions.every(({ verdict }) => verdict === "ok" || verdict === "skipped") ? 0 : 5);
  return Object.fromEntries(sessions.map(({ session, verdict }) => [session, verdict]));
}

const runs =
  (tools: Parameters<Session["run"]>[0]["tools"] & {}, text = prompt.text): Program =>
  (session) =>
    session.run({
      model: () => {
        world.push("asked");
        throw new Error("a rehearsal asked its model");
      },
      tools,
      prompt: { ...prompt, text },
    });

test("a session's own loop: its tools, its arguments and its prompt are compared", async () => {
  await leaveOpenCall();
  expect(await verdicts(runs([find, charge()]))).toEqual({ s: "ok" });
  expect(await verdicts(runs([find]))).toEqual({ s: "tool gone" });
  expect(await verdicts(runs([find, charge(z.object({ eur: z.number() }))]))).toEqual({ s: "tool changed" });
  expect(await verdicts(runs([find, charge()], "Pay twice"))).toEqual({ s: "diverges" });
});

test("a program's own error is reported, and one after the end of the record is not", async () => {
  await leaveOpenCall();
  const fails: Program = () => {
    throw new Error("no key");
  };
  expect(await verdicts(fails)).toEqual({ s: "failed" });
  const complains: Program = async (session) => {
    await runs([find, charge()])(session);
    throw new Error("not done");
  };
  expect(await verdicts(complains)).toEqual({ s: "ok" });
});

test("a fork is copied with its history, and large results are read from the store", async () => {
  await leaveOpenCall();
  // Version 1 has the result of the first call, so the fork is in the middle of the run.
  await holdfast.sessions.fork("s", "fork", { version: 1 });
  const seen: unknown[] = [];
  const reads: Program = async (session) => {
    const { status, ...found } = await session.call({ tool: find, args: {}, callId: "find" });
    seen.push([session.id, status, "value" in found && found.value === LARGE]);
    return runs([find, charge()])(session);
  };
  expect(await verdicts(reads)).toEqual({ s: "ok", fork: "ok" });
  expect(seen.toSorted()).toEqual([
    ["fork", "completed", true],
    ["s", "completed", true],
  ]);
});
