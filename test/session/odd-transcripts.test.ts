import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import { applySegments, compareTranscripts, type Message } from "../../src/model/session/index.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { callBlock } from "../ledger/bench.ts";
import { quickFolder } from "../quick-folder.ts";

const at = "2026-01-31T12:00:00Z";
const said = (id: string, text = id): Message => ({
  id,
  role: "user",
  createdAt: at,
  blocks: [{ kind: "text", text }],
});

test("a version with a repeated message id equals itself", async () => {
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  await session.append(said("first"));
  const version = await session.save({ messages: [said("m"), said("n"), said("m")] });
  const { messages } = await session.diff(version, version);
  expect(messages).toEqual({ added: [], removed: [], changed: [], same: 3 });
  await session.save({ messages: [said("m"), said("n"), said("m", "other")] });
  const changed = (await session.diff(version, version + 1)).messages;
  expect(changed).toMatchObject({ added: [], removed: [], same: 2, changed: [{ after: { id: "m" } }] });
  await holdfast.close();
});

test("used call ids become unique, also if the generated id is taken or too long", async () => {
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  const results = (id: string, calls: readonly string[]) =>
    session.append({
      id,
      role: "tool",
      blocks: calls.map((callId) => ({ kind: "tool_result", callId, content: "ok" }) as const),
    });
  const long = "y".repeat(200);
  await session.append({
    id: "m1",
    role: "assistant",
    blocks: [callBlock("x", "pay"), callBlock(long, "pay")],
  });
  await results("r1", ["x", long]);
  const second = await session.append({
    id: "m2",
    role: "assistant",
    blocks: [callBlock("x.m2.1", "pay"), callBlock("x", "pay")],
  });
  const ids = second.blocks.map((block) => (block.kind === "tool_call" ? block.id : ""));
  expect(ids[0]).toBe("x.m2.1");
  expect(ids[1]).toMatch(/^call_[0-9a-f]{32}$/);
  await results("r2", ids);
  const third = await session.append({
    id: "z".repeat(100),
    role: "assistant",
    blocks: [callBlock(long, "pay")],
  });
  expect(third.blocks[0]).toMatchObject({ id: expect.stringMatching(/^call_[0-9a-f]{32}$/) });
  await holdfast.close();
});

test("a transcript can be replaced by more messages than a call may have arguments", () => {
  const [kept, gone] = [said("kept"), said("gone")];
  const next = [kept, ...Array.from({ length: 130_000 }, (_, index) => said(`m-${index}`))];
  const change = compareTranscripts([kept, gone], next);
  if (change.kind !== "replaced") throw new Error(change.kind);
  expect(change.segments).toHaveLength(2);
  expect(applySegments([kept, gone], change.segments)).toHaveLength(next.length);
});

test("a removed fork has no inherited versions", async () => {
  const holdfast = await open("memory:");
  const root = await holdfast.session("root");
  await root.append(said("a"), { checkpoint: true });
  await root.close();
  await holdfast.sessions.fork("root", "middle");
  const middle = await holdfast.session("middle");
  await middle.append(said("b"), { checkpoint: true });
  await middle.complete();
  await middle.close();
  await holdfast.sessions.fork("middle", "leaf");
  expect((await holdfast.sessions.prune({ status: "completed" })).hidden).toEqual(["middle"]);
  await expect(holdfast.sessions.at("middle", 1)).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
  expect((await holdfast.sessions.at("leaf", 1)).messages).toHaveLength(1);
  await holdfast.close();
});

test("a damaged past is reported by the fork, not when the fork is opened", async () => {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-damaged-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "store.db");
  const holdfast = await open(file);
  const session = await holdfast.session("s");
  for (const word of ["one", "two", "three"])
    await session.append(said(word, `NEEDLE-${word}`), { checkpoint: true });
  await holdfast.close();
  const database = await Connection.open(file, false);
  database.exec("UPDATE writes SET payload = replace(payload, 'NEEDLE-two', 'NOODLE-two')");
  await database.close();
  const again = await open(file);
  await expect(again.sessions.fork("s", "after")).rejects.toMatchObject({ code: "EVENT_CORRUPT" });
  await again.sessions.fork("s", "before", { version: 1 });
  expect((await again.sessions.list()).sessions.map(({ id }) => id).sort()).toEqual(["before", "s"]);
  await again.close();
});
