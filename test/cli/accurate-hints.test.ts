// Pages and errors give accurate statements and commands that work.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as z from "zod";
import { fullDisk } from "../../src/cli/failure.ts";
import { agentTool, open, tool } from "../../src/index.ts";
import { readStatus } from "../../src/operations/index.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

const line = await CommandLine.build();
afterAll(() => line.remove());

async function project(): Promise<(...words: string[]) => Promise<Ran>> {
  const folder = line.newProject();
  const say = (...words: string[]) => runInside(folder, words);
  await say("init", "--agent", "none");
  await say("goal", "new", "checkout", "Ship it");
  return say;
}

const charge = tool({
  name: "charge",
  description: "Nobody can tell whether it happened",
  input: z.object({ order: z.string() }),
  effect: "mutate",
  execute: () => {
    throw new Error("the line went dead");
  },
});

test("an open call shows its arguments and why it waits", async () => {
  const holdfast = await open("memory:");
  for (const id of ["a", "b"]) {
    const session = await holdfast.session(id);
    await session.call({ callId: `${id}1`, tool: charge, args: { order: `${id}-17` } });
    await session.close();
  }
  const { calls } = await holdfast.calls.list();
  expect(calls.map(({ callId, args, status, why }) => ({ callId, args, status, why }))).toEqual(
    ["a", "b"].map((id) => ({
      callId: `${id}1`,
      args: { order: `${id}-17` },
      status: "waiting",
      why: expect.stringContaining("the line went dead"),
    })),
  );
  const [first] = (await holdfast.calls.list({ limit: 1 })).calls;
  expect(first).toMatchObject({ callId: "a1", args: { order: "a-17" } });
  await holdfast.close();
});

test("an open call of an unreadable session is listed", async () => {
  const { store } = (await open("memory:")).journal;
  const secret = {
    name: "secret",
    encode: (text: string) => Buffer.from(text).toString("base64"),
    decode: (payload: string | Uint8Array) => Buffer.from(String(payload), "base64").toString(),
  };
  const session = await (await open(undefined, { store, codecs: [secret] })).session("a");
  await session.call({ callId: "a1", tool: charge, args: { order: "17" } });
  await session.close();
  const { calls } = await (await open(undefined, { store })).calls.list();
  expect(calls).toMatchObject([{ callId: "a1", tool: "charge", status: "waiting", args: null, why: null }]);
});

test("a sub-agent's budget is not counted beside its parent's", async () => {
  const holdfast = await open("memory:");
  const { store } = holdfast.journal;
  const usage = { usd: 0.1 };
  const seen: { spentUsd: number; limitUsd: number | null }[] = [];
  const look = async (): Promise<void> => {
    const { sessions } = await readStatus(store, { now: Date.now() });
    seen.push({ spentUsd: sessions.spentUsd, limitUsd: sessions.limitUsd });
  };
  const child = agentTool({
    name: "child",
    description: "Works for another",
    input: z.object({}),
    budget: { usd: 1 },
    run: (_, session) =>
      session.run({
        model: async () => {
          await look();
          return { message: { text: "done" }, usage };
        },
        tools: [],
        prompt: "go",
      }),
  });
  const session = await holdfast.session("parent");
  await session.run({
    model: async ({ messages }) => {
      if (messages.at(-1)?.role === "tool") return { message: { text: "done" }, usage };
      return { message: { blocks: [{ kind: "tool_call", id: "c", name: "child", args: {} }] }, usage };
    },
    tools: [child],
    prompt: "go",
    budget: { usd: 5 },
  });
  await look();
  expect(seen).toEqual([
    { spentUsd: 1.1, limitUsd: 5 },
    { spentUsd: 0.3, limitUsd: 5 },
  ]);
  await holdfast.close();
});

test("calls prints commands to paste, one per line", async () => {
  const say = await project();
  const folder = line.newProject();
  const holdfast = await open(join(folder, "state.db"));
  const session = await holdfast.session("a");
  await session.call({ callId: "a1", tool: charge, args: { order: "17" } });
  await holdfast.close();
  const named = ["--store", join(folder, "state.db")];
  const { out } = await say("calls", ...named);
  const commands = out.match(/holdfast .*/g) ?? [];
  expect(commands.map((each) => each.split(" ").at(-1))).toEqual(["landed", "retry", "failed"]);
  const words = (commands[0] ?? "").split(" ").slice(1);
  expect(await say(...words, "--by", "ann", "--why", "seen")).toMatchObject({ code: 0 });
});

test("a write rejected by a moved store does not mention the files", async () => {
  const say = await project();
  const away = await say("move", "--yes", ".holdfast", "away.db");
  expect(away.out).toContain("Set HOLDFAST_STORE=");
  const refused = await say("task", "add", "One");
  expect(refused.code).toBe(4);
  expect(refused.err).toMatch(/^holdfast: [^\n]*has moved to/);
  expect(refused.err, "the files lack nothing, because nothing was written").not.toContain("not up to date");
});

test("a store in the default place is found without an address", async () => {
  const folder = line.newProject();
  const say = (...words: string[]) => runInside(folder, words);
  const away = ".holdfast/away.db";
  mkdirSync(join(folder, ".planning"));
  await say("init", "--store", away);
  await say("goal", "new", "checkout", "Ship it", "--store", away);
  const { code, out } = await say("move", "--yes", away, ".holdfast/store.db");
  expect({ code, out }).toMatchObject({
    code: 0,
    out: expect.stringContaining("find it without an address"),
  });
  expect(out).not.toContain("HOLDFAST_STORE");
  expect(out, ".planning/ follows the default store").not.toContain("does not follow");
  expect((await say("goal", "list")).out).toContain("checkout");
  const old = await say("goal", "list", "--store", away);
  expect(old.err).toMatch(/has moved to(.|\n)*find it without an address/);
});

test("an I/O error of a full disk says that the disk is full", () => {
  const [full, roomy] = [0, 1_000_000].map((bavail) => () => ({ bavail, bsize: 4096 }));
  expect(fullDisk("/some/store.db", full)).toContain("The disk is full: 0.0 MB are left");
  expect(fullDisk("/some/store.db", roomy)).toBe("");
  expect(fullDisk(undefined, full)).toBe("");
});

test("a missing file and a missing task are named as typed", async () => {
  const say = await project();
  await say("task", "add", "One");
  const added = await say("task", "add", "Two", "--depends-on", "T-099");
  expect(added.code).toBe(2);
  expect(added.err).toContain('the new task "Two" names "T-099"');
  expect(added.err).not.toContain("T-002");
  await say("task", "claim", "1", "--by", "ann");
  const submitted = await say("task", "submit", "1", "--by", "ann", "--file", "nothere");
  expect(submitted.code).toBe(2);
  expect(submitted.err).toContain("in a command as in your shell");
});
