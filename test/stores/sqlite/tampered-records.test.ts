// A person or a bad disk changes stored records, and they are still JSON. Holdfast does not act on them.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { type Model, open, type Tool, tool } from "../../../src/index.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-changed-"));
  file = join(folder, "store.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function change(from: string, to: string): Promise<void> {
  const connection = await Connection.open(file, false);
  const changed = connection.count("UPDATE writes SET payload = replace(payload, ?, ?)", from, to);
  await connection.close();
  expect(changed).toBeGreaterThan(0);
}

test("a call whose record was tampered with is not made", async () => {
  const charged: unknown[] = [];
  const pay = tool({
    name: "pay",
    description: "Pays.",
    effect: "mutate",
    input: z.object({ cents: z.number() }),
    execute: (args) => {
      charged.push(args);
      return null;
    },
  }) as unknown as Tool;
  const model: Model = async () => ({ message: { text: "Paid." } });
  const before = await open(file);
  const session = await before.session("order");
  const call = { kind: "tool_call", id: "c", name: "pay", args: { cents: 1234567 } } as const;
  await session.append([
    { role: "user", text: "Pay" },
    { role: "assistant", blocks: [call] },
  ]);
  await before.close();
  await change("1234567", "9234567");
  const after = await open(file);
  const run = after.session("order").then((again) => again.run({ model, tools: [pay] }));
  await expect(run).rejects.toMatchObject({ code: "EVENT_CORRUPT", message: /checksum/ });
  expect(charged).toEqual([]);
  // Reading is allowed, to find out what happened to it.
  expect((await after.sessions.get("order")).messages).toHaveLength(2);
  await after.close();
});

test("a tampered result is not repeated in another session", async () => {
  const receipt = tool({
    name: "receipt",
    description: "Makes a receipt.",
    effect: "mutate",
    dedupe: "global",
    input: z.object({ order: z.number() }),
    execute: () => ({ cents: 1234567 }),
  }) as unknown as Tool;
  const before = await open(file);
  const first = await before.session("first");
  expect(await first.call({ tool: receipt, args: { order: 1 } })).toMatchObject({
    value: { cents: 1234567 },
  });
  await before.close();
  await change("1234567", "9234567");
  const after = await open(file);
  const second = await after.session("second");
  const call = second.call({ tool: receipt, args: { order: 1 } });
  await expect(call).rejects.toMatchObject({ code: "EVENT_CORRUPT", message: /session\/first/ });
  await after.close();
});

test("a goal whose record was tampered with is not worked on", async () => {
  const before = await open(file);
  await (await before.goal("ship", { statement: "Ship it" })).addTask({ title: "Pay 100 to ann" });
  await before.close();
  await change("Pay 100 to ann", "Pay 900 to bob");
  const after = await open(file);
  await expect(after.goal("ship")).rejects.toMatchObject({ code: "EVENT_CORRUPT" });
  await after.close();
});
