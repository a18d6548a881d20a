// Every command works in any namespace, and those that answer for the store cover all of them and say so.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import * as z from "zod";
import { open, type PayloadCodec, tool } from "../../src/index.ts";
import { openStore } from "../../src/open-store.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(() => {
  project = line.newProject();
});

const run = (...args: string[]): Promise<Ran> => runInside(project, args);

const charge = tool({
  name: "charge",
  description: "Charges",
  effect: "mutate",
  input: z.looseObject({}),
  execute: async (): Promise<string> => {
    throw new Error("the connection was lost");
  },
});

const ROT: PayloadCodec = {
  name: "rot",
  encode: (text) => [...text].reverse().join(""),
  decode: (payload) => [...String(payload)].reverse().join(""),
};

/** A session with a call that waits for a person. */
async function waiting(place: string, id: string, options: Parameters<typeof open>[1] = {}): Promise<void> {
  const holdfast = await open(place, options);
  const session = await holdfast.session(id);
  await session.call({ callId: `call-${id}`, tool: charge, args: { order: id } }).catch(() => undefined);
  await holdfast.close();
}

const STORES = [
  ["SQLite", "state.db"],
  ["files", "state/"],
] as const;

test.each(STORES)("on %s, status, calls and doctor count all namespaces and say which", async (_, name) => {
  const address = join(project, name);
  await waiting(address, "here");
  await waiting(address, "there", { namespace: "acme" });
  const store = ["--store", address];
  const status = await run("status", ...store);
  expect(status.out).toContain("acme: 1 call waits for you");
  expect(status.out).toContain("holdfast calls --namespace acme");
  expect(status.out).toMatch(/^namespace {2}default; 1 more \(acme\)/m);
  const calls = await run("calls", ...store);
  expect(calls.out).toContain("session there in namespace acme");
  expect(calls.out).toMatch(/holdfast resolve call-there .*--namespace acme/);
  expect((await run("doctor", ...store)).out).toContain("2 wait for a person");
  const one = await run("calls", "--namespace", "acme", ...store);
  expect(one.out).toContain("call-there");
  expect(one.out).not.toContain("call-here");
});

test("a call of another namespace is resolved there, and the error elsewhere names it", async () => {
  const address = join(project, "state.db");
  await waiting(address, "there", { namespace: "acme" });
  const answer = ["resolve", "call-there", "failed", "--by", "ann", "--why", "no", "--store", address];
  const refused = await run(...answer);
  expect([refused.code, refused.err]).toEqual([3, expect.stringContaining("--namespace acme")]);
  expect((await run(...answer, "--namespace", "acme")).code).toBe(0);
});

test.each([
  ["--namespace", {}],
  ["HOLDFAST_NAMESPACE", { HOLDFAST_NAMESPACE: "acme" }],
])("%s chooses the namespace of every command", async (how, env) => {
  const typed = how === "--namespace" ? ["--namespace", "acme"] : [];
  const at = (...args: string[]) => runInside(project, [...args, ...typed], env);
  await waiting(join(project, ".holdfast"), "tenant", { namespace: "acme" });
  expect((await at("session", "list")).out).toContain("tenant");
  expect((await at("session", "show", "tenant")).code).toBe(0);
  expect((await at("goal", "new", "g", "Ship it")).code).toBe(0);
  expect((await run("goal", "list")).out).not.toContain("Ship it");
  expect((await run("session", "show", "tenant")).code).toBe(3);
});

test("a named namespace leaves the project's .planning/ alone", async () => {
  await run("init", "--agent", "none");
  await run("goal", "new", "own", "Ship it");
  const { out } = await run("goal", "list", "--namespace", "tenant");
  expect(out).not.toContain("own");
});

test("export takes all namespaces and says which, and import restores each", async () => {
  const address = join(project, "state.db");
  await waiting(address, "here");
  await waiting(address, "there", { namespace: "acme" });
  const file = join(project, "all.hfx");
  const exported = await run("export", file, "--store", address);
  expect([exported.code, exported.out]).toEqual([0, expect.stringContaining("namespaces default, acme")]);
  const imported = await run("import", file, "--store", join(project, "other.db"));
  expect([imported.code, imported.out]).toEqual([0, expect.stringContaining("namespaces default, acme")]);
  const other = await open(join(project, "other.db"), { namespace: "acme" });
  expect((await other.calls.list()).calls.map(({ callId }) => callId)).toEqual(["call-there"]);
  await other.close();
  const part = join(project, "part.hfx");
  expect((await run("export", part, "--namespace", "acme", "--store", address)).out).toContain("acme");
  const third = ["--store", join(project, "third.db")];
  const missing = await run("import", part, "--namespace", "default", ...third);
  expect([missing.code, missing.err]).toEqual([2, expect.stringContaining("nothing of namespace default")]);
  expect((await run("import", part, ...third)).out).toContain("1 goals and sessions");
});

const WRONG_KEY: PayloadCodec = {
  ...ROT,
  decode: () => {
    throw new Error("unable to authenticate data");
  },
};

test.each(STORES)("on %s, a session that cannot be decoded is named and skipped", async (_, name) => {
  const address = join(project, name);
  await waiting(address, "plain");
  await waiting(address, "secret", { codecs: [ROT] });
  const store = ["--store", address];
  const calls = await run("calls", ...store);
  expect(calls.code).toBe(5);
  expect(calls.out).toContain('charge {"order":"plain"}');
  expect(calls.out).toContain("session secret");
  expect(calls.out).toMatch(/^! not decoded: session secret .*codec "rot" is not configured/m);
  const exported = await run("export", join(project, "all.hfx"), ...store);
  expect(exported.code).toBe(5);
  expect(exported.out).toMatch(/1 goals and sessions[\s\S]*cannot be read: session\/secret/);
  expect((await run("session", "list", ...store)).out).toMatch(/plain|secret/);
  expect((await run("status", ...store)).code).toBe(0);
  const wrong = await open(address, { codecs: [WRONG_KEY] });
  await expect(wrong.sessions.get("secret")).rejects.toMatchObject({ code: "CODEC_FAILED" });
  expect((await wrong.calls.list()).calls).toHaveLength(2);
  await wrong.close();
});

test("supervise, prune and check go on past a session that cannot be decoded", async () => {
  const address = join(project, "state.db");
  await waiting(address, "plain");
  await waiting(address, "secret", { codecs: [ROT] });
  const store = ["--store", address];
  const check = await run("check", ...store);
  expect([check.code, check.out]).toEqual([5, expect.stringContaining("secret")]);
  expect((await run("supervise", "--once", ...store)).code).toBe(0);
  expect((await run("prune", "--older-than", "1d", "--dry-run", ...store)).code).toBe(0);
  expect((await run("doctor", ...store)).out).toContain("2 wait for a person");
});

test.each(STORES)("on %s, check folds the events of every namespace", async (_, name) => {
  const address = join(project, name);
  await waiting(address, "here");
  await waiting(address, "there", { namespace: "acme", codecs: [ROT] });
  const store = ["--store", address];
  const all = await run("check", ...store);
  expect([all.code, all.out]).toEqual([5, expect.stringContaining("session/there in namespace acme")]);
  expect((await run("check", "--namespace", "default", ...store)).code).toBe(0);
});

test("status says how many namespaces it did not read", async () => {
  const address = join(project, "state.db");
  const store = await openStore(address);
  for (let index = 0; index < 203; index++) {
    const row = {
      stream: "note/n",
      expect: { generation: 1, seq: 0 },
      count: 1,
      payload: "[1]",
      codec: null,
    };
    const writes = [{ ...row, sum: crc32("[1]"), at: 1 }];
    await store.append({ id: `b-${index}`, namespace: `tenant-${index}`, writes });
  }
  await store.close();
  const { out } = await run("status", "--store", address);
  expect(out).toContain("3 of these were not read");
  const json = JSON.parse((await run("status", "--json", "--store", address)).out);
  expect(json.data ?? json).toMatchObject({ unreadNamespaces: 3 });
  expect((await run("status", "--namespace", "tenant-1", "--store", address)).out).not.toContain("not read");
});
