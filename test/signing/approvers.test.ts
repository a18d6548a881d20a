// Answers for calls of tools that require an approver's key, and answers of agents.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { open, tool } from "../../src/index.ts";
import { sessionKind } from "../../src/model/session/index.ts";
import { allowSigner, publicKey, signText, useKey } from "../../src/signing/index.ts";
import { runInside } from "../cli/inside.ts";
import { callBlock } from "../ledger/bench.ts";
import { quickFolder } from "../quick-folder.ts";
import { needs, works } from "../stores/sqlite/processes.ts";

const hasKeygen = works("sh", "-c", "command -v ssh-keygen");
const before = process.env["XDG_CONFIG_HOME"];
let folder: string;
let paid: number;

beforeEach(() => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-approver-"));
  process.env["XDG_CONFIG_HOME"] = join(folder, "config");
  mkdirSync(join(folder, "project"));
  paid = 0;
});
afterEach(() => {
  if (before === undefined) delete process.env["XDG_CONFIG_HOME"];
  else process.env["XDG_CONFIG_HOME"] = before;
  rmSync(folder, { recursive: true, force: true });
});

const store = (): string => join(folder, "store.db");
const run = (args: readonly string[], env: Record<string, string> = {}) =>
  runInside(join(folder, "project"), [...args, "--store", store(), "--by", "ann", "--why", "seen"], {
    XDG_CONFIG_HOME: join(folder, "config"),
    ...env,
  });

function makeKey(name: string): string {
  const file = join(folder, name);
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file]);
  return file;
}

/** Appends an event as a program does that writes into the store and knows its format. */
async function write(draft: { type: string; data: Record<string, unknown> }): Promise<void> {
  const holdfast = await open(store());
  const log = await holdfast.journal.open(sessionKind, "s");
  await log.commit(() => ({ events: [draft], result: null }));
  await holdfast.close();
}

async function recorded(type: string): Promise<Record<string, unknown>[]> {
  const found: Record<string, unknown>[] = [];
  const holdfast = await open(store());
  for await (const [, event] of holdfast.journal.events("session/s", 0, 1_000))
    if (event.type === type) found.push(event.data as Record<string, unknown>);
  await holdfast.close();
  return found;
}

/** Two calls that wait for approval, made by a program that has ended. */
async function waitingCalls(who: { requireApprover?: true; agentAnswers?: true }): Promise<void> {
  await goOn(who);
  expect(paid).toBe(0);
}

async function goOn(who: { requireApprover?: true; agentAnswers?: true }): Promise<void> {
  const pay = tool({
    name: "pay",
    description: "Pays.",
    input: z.object({ eur: z.number() }),
    effect: "mutate",
    needsApproval: true,
    ...who,
    execute: ({ eur }) => {
      paid += eur;
      return eur;
    },
  });
  const holdfast = await open(store());
  const session = await holdfast.session("s");
  const calls = [1, 2].map((eur) => callBlock(`c${eur}`, "pay", { eur }));
  let asked = session.messages.length > 0;
  await session.run({
    ...(asked ? {} : { prompt: "pay both" }),
    tools: [pay],
    model: async () => {
      const first = !asked;
      asked = true;
      return { message: first ? { blocks: calls } : { text: "done" } };
    },
  });
  await session.close();
  await holdfast.close();
}

describe.skipIf(!hasKeygen)(needs("a tool that requires an approver", "ssh-keygen", hasKeygen), () => {
  test("takes no answer without a key, by a key that is no approver's, or by one for acts only", async () => {
    await waitingCalls({ requireApprover: true });
    const refused = async (): Promise<void> => {
      for (const args of [
        ["approve", "c1"],
        ["deny", "c1"],
      ])
        expect((await run(args)).err).toContain("pay requires an approver");
    };
    await refused();
    const key = makeKey("ann");
    useKey({ name: "ann", key });
    await refused();
    allowSigner({ name: "eve", key: publicKey(makeKey("eve")), purposes: ["answer"] });
    await refused();
    await goOn({ requireApprover: true });
    expect(paid).toBe(0);
  });

  test("takes a signed answer, records the approver, and refuses it for another call", async () => {
    await waitingCalls({ requireApprover: true });
    const key = makeKey("ann");
    useKey({ name: "ann", key });
    allowSigner({ name: "ann", key: publicKey(key), purposes: ["answer"] });
    expect((await run(["approve", "c1"])).code).toBe(0);
    const holdfast = await open(store());
    let stolen = "";
    const sign = async (text: string): Promise<string> => {
      stolen ||= await signText({ name: "ann", key }, "answer", text.replace('"c2"', '"c1"'));
      return stolen;
    };
    await expect(holdfast.calls.approve("c2", { by: "ann", sign })).rejects.toMatchObject({
      code: "APPROVER_REQUIRED",
    });
    const granted: unknown[] = [];
    for await (const [, event] of holdfast.journal.events("session/s", 0, 1_000))
      if (event.type === "call.approved") granted.push(event.data);
    expect(granted).toMatchObject([{ callId: "c1", approver: "ann", signature: expect.any(String) }]);
    await holdfast.close();
    await goOn({ requireApprover: true });
    expect(paid).toBe(1);
  });

  test("runs no call whose approval was written into the store: unsigned, by a foreign key, or replayed", async () => {
    await waitingCalls({ requireApprover: true });
    const [key, foreign] = [makeKey("ann"), makeKey("eve")];
    useKey({ name: "ann", key });
    allowSigner({ name: "ann", key: publicKey(key), purposes: ["answer"] });
    expect((await run(["approve", "c1"])).code).toBe(0);
    const [signed] = await recorded("call.approved");
    const bySomebody = await signText({ name: "eve", key: foreign }, "answer", "holdfast answer\n{}\n");
    const forged: Record<string, unknown>[] = [
      { person: "ann", why: "seen" },
      { person: "ann", why: "seen", approver: "ann", signature: "no signature" },
      { person: "ann", why: "seen", approver: "ann", signature: bySomebody },
      // The signature of the answer for the other call.
      { ...signed, callId: "c2" },
      { person: "ann", why: "seen", args: { eur: 5 }, signature: signed?.["signature"] },
    ];
    for (const data of forged) {
      await write({ type: "call.approved", data: { ...data, callId: "c2" } });
      await goOn({ requireApprover: true });
      expect(paid, JSON.stringify(data)).toBe(1);
    }
    const waits = (await recorded("call.waiting")).filter(({ callId }) => callId === "c2");
    expect(waits.at(-1)).toMatchObject({ why: expect.stringContaining("requires an approver"), again: true });
    expect((await run(["approve", "c2"])).code).toBe(0);
    await goOn({ requireApprover: true });
    // The person has signed the arguments as they stand, which the last forged approval changed.
    expect(paid).toBe(6);
  });

  test("runs no call with arguments that were changed in the store after a signed approval", async () => {
    await waitingCalls({ requireApprover: true });
    const key = makeKey("ann");
    useKey({ name: "ann", key });
    allowSigner({ name: "ann", key: publicKey(key), purposes: ["answer"] });
    expect((await run(["approve", "c1"])).code).toBe(0);
    const [signed] = await recorded("call.approved");
    await write({ type: "call.waiting", data: { callId: "c1", why: "again", again: true } });
    await write({ type: "call.approved", data: { ...signed, args: { eur: 900 } } });
    await goOn({ requireApprover: true });
    expect(paid).toBe(0);
  });

  test("asks again for an approval from before the tool required an approver", async () => {
    await waitingCalls({});
    expect((await run(["approve", "c1"])).code).toBe(0);
    await goOn({ requireApprover: true });
    expect(paid).toBe(0);
    expect((await run(["approve", "c1"])).err).toContain("pay requires an approver");
    const key = makeKey("ann");
    useKey({ name: "ann", key });
    allowSigner({ name: "ann", key: publicKey(key), purposes: ["answer"] });
    expect((await run(["approve", "c1"])).code).toBe(0);
    await goOn({ requireApprover: true });
    expect(paid).toBe(1);
  });

  test("runs a call with the changed arguments and the expiry that an approver signed", async () => {
    await waitingCalls({ requireApprover: true });
    const key = makeKey("ann");
    useKey({ name: "ann", key });
    allowSigner({ name: "ann", key: publicKey(key), purposes: ["answer"] });
    const holdfast = await open(store());
    const sign = (text: string): Promise<string> => signText({ name: "ann", key }, "answer", text);
    await holdfast.calls.approve("c1", { by: "ann", args: { eur: 30 }, expiresInMs: 3_600_000, sign });
    await holdfast.close();
    await goOn({ requireApprover: true });
    expect(paid).toBe(30);
  });
});

test("an agent answers only with --as-agent, and only for a tool that allows it", async () => {
  const agent = { CLAUDECODE: "1" };
  await waitingCalls({ agentAnswers: true });
  expect((await run(["approve", "c1"], agent)).err).toContain("for people, but an agent runs it");
  expect((await run(["approve", "c1", "--as-agent"], agent)).code).toBe(0);
  expect((await run(["deny", "c2", "--as-agent"], agent)).code).toBe(0);
  const holdfast = await open(store());
  const said: unknown[] = [];
  for await (const [, event] of holdfast.journal.events("session/s", 0, 1_000))
    if (["call.approved", "call.failed"].includes(event.type)) said.push(event.data);
  expect(said).toMatchObject([
    { callId: "c1", via: "agent" },
    { callId: "c2", via: "agent" },
  ]);
  await holdfast.close();
});

test("an agent's answer is refused for a tool that does not allow it", async () => {
  await waitingCalls({});
  const { err } = await run(["approve", "c1", "--as-agent"], { CLAUDECODE: "1" });
  expect(err).toContain("takes no answer of an agent");
  await goOn({});
  expect(paid).toBe(0);
});
