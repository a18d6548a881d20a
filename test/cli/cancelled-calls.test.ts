// A cancelled session never runs again: its calls offer no retry, and no page says that it continues.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { counting } from "../ledger/bench.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const ann = ["--by", "ann", "--why", "seen it"];
let line: CommandLine;
const run = (...words: string[]) => runInside(line.project, words);

beforeAll(async () => {
  line = await CommandLine.build();
  const holdfast = await open(join(line.project, ".holdfast"));
  const session = await holdfast.session("order-1");
  const execute = () => {
    throw new Error("the line went dead");
  };
  await session.call({ tool: counting({ effects: [] }, "pay", { execute }), args: {}, callId: "c1" });
  await session.close();
  await holdfast.close();
});
afterAll(() => line.remove());

test("calls offers answers, but no retry", async () => {
  expect((await run("calls")).out).toContain("holdfast resolve c1 retry");
  await run("session", "cancel", "order-1", ...ann);
  const { out } = await run("calls");
  expect(out).toContain("holdfast resolve c1 landed");
  expect(out).toContain("holdfast resolve c1 failed");
  expect(out).not.toContain("retry");
});

test("a retry is rejected with a reason", async () => {
  const { code, err } = await run("resolve", "c1", "retry", ...ann);
  expect(code).toBe(4);
  expect(err).toContain("cannot run, session order-1 is cancelled");
});

test("an answer does not promise that the session continues", async () => {
  const { code, out } = await run("resolve", "c1", "landed", ...ann);
  expect(code).toBe(0);
  expect(out).toBe("c1 landed; its session stays cancelled\n");
});
