// Acts of people that carry an ssh signature: which of them count in another clone, and which do not.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { goalCore, makeBriefing } from "../../src/goal/index.ts";
import { type Entry, originOf, signedText } from "../../src/model/goal/index.ts";
import { allowSigner, publicKey, signText } from "../../src/signing/index.ts";
import { Copy, WallClock } from "../projections/copies.ts";
import { forge, plant } from "../projections/forged-events.ts";
import { quickFolder } from "../quick-folder.ts";
import { needs, works } from "../stores/sqlite/processes.ts";

const hasKeygen = works("sh", "-c", "command -v ssh-keygen");
const AT = Date.UTC(2026, 0, 2) + 3_600_000;
const ann = { name: "ann", role: "human" } as const;

const copies: Copy[] = [];
let folder: string;
let warnings: string[];
const before = { config: process.env["XDG_CONFIG_HOME"], path: process.env["PATH"] };

beforeEach(() => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-signing-"));
  process.env["XDG_CONFIG_HOME"] = join(folder, "config");
  warnings = [];
});
afterEach(async () => {
  process.env["PATH"] = before.path;
  if (before.config === undefined) delete process.env["XDG_CONFIG_HOME"];
  else process.env["XDG_CONFIG_HOME"] = before.config;
  for (const copy of copies.splice(0)) await copy.dispose();
  rmSync(folder, { recursive: true, force: true });
});

function makeKey(name: string): string {
  const file = join(folder, name);
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file]);
  return file;
}

const allow = (name: string, key: string, purposes: readonly ("act" | "answer")[] = ["act"]): void =>
  allowSigner({ name, key: publicKey(key), purposes });

async function make(clock: WallClock, from?: { readonly root: string }): Promise<Copy> {
  const copy = await Copy.make(clock, from, (error) => warnings.push(String(error)), "review");
  copies.push(copy);
  return copy;
}

/** Two clones of a goal with two blockers that only a person lifts. The first one signs with `key`. */
async function twoClones(key?: string): Promise<{ a: Copy; b: Copy }> {
  const clock = new WallClock();
  const a = await make(clock);
  for (const description of ["security review", "budget"])
    await a.goal.block({ description, affects: { tasks: [], phases: [], goal: true } });
  await a.folder.sync();
  const b = await make(clock, a);
  if (key !== undefined) goalCore(a.goal).signer = (text) => signText({ name: "ann", key }, "act", text);
  return { a, b };
}

const statuses = ({ goal }: Copy): unknown => [...goal.state.blockers.values()].map(({ status }) => status);

const resolution = (copy: Copy, blocker: string, c = 0): Entry =>
  forge({
    t: AT,
    c,
    at: AT,
    type: "blocker.resolved",
    refs: { [blocker]: copy.goal.state.names.get(blocker) ?? "" },
    data: { by: ann, blocker, resolution: "reviewed" },
  });

const signature = (events: readonly string[], text: string): Entry =>
  forge({ t: AT, c: 9, at: AT, type: "event.signed", data: { by: ann, events, signature: text } });

const sign = (key: string, text: string, purpose: "act" | "answer" = "act"): Promise<string> =>
  signText({ name: "ann", key }, purpose, text);

describe.skipIf(!hasKeygen)(needs("signed acts", "ssh-keygen", hasKeygen), () => {
  test("count at once in a clone that allows the key, and say who signed them", async () => {
    const key = makeKey("ann");
    allow("ann", key);
    const { a, b } = await twoClones(key);
    await a.goal.resolve({ blocker: "B-001", resolution: "reviewed" });
    await a.goal.decide({ type: "constraint", context: "c", decision: "Use one key", reason: "r" });
    await b.pull(a);
    expect(statuses(b)).toEqual(["resolved", "active"]);
    expect(b.goal.state.waiting).toEqual([]);
    expect(makeBriefing(b.goal.state, 1, AT).text).toMatch(/DECIDED D-001 .*, from a pull, signed by ann$/m);
    expect(makeBriefing(a.goal.state, 1, AT).text).toMatch(/DECIDED D-001 .*, signed by ann$/m);
    await a.pull(b);
    expect(b.files()).toEqual(a.files());
    expect(b.goal.state.clock).toEqual(a.goal.state.clock);
  });

  test("wait if nobody allowed the key, and count once a person allows it", async () => {
    const key = makeKey("ann");
    const { a, b } = await twoClones(key);
    await a.goal.resolve({ blocker: "B-001", resolution: "reviewed" });
    await b.pull(a);
    expect(statuses(b)).toEqual(["active", "active"]);
    allow("eve", makeKey("eve"));
    expect(await goalCore(b.goal).checkSignatures()).toBe(false);
    allow("ann", key);
    expect(await goalCore(b.goal).checkSignatures()).toBe(true);
    expect(statuses(b)).toEqual(["resolved", "active"]);
  });

  test("count when the signature arrives before the act, and when it arrives after it", async () => {
    const key = makeKey("ann");
    allow("ann", key);
    const { a, b } = await twoClones();
    const act = resolution(a, "B-001");
    const proof = signature([act.uid], await sign(key, signedText("checkout", [act.uid])));
    plant(a, [act]);
    await a.folder.sync();
    expect(statuses(a)).toEqual(["active", "active"]);
    plant(a, [proof]);
    await a.folder.sync();
    plant(b, [proof]);
    await b.folder.sync();
    plant(b, [act]);
    await b.folder.sync();
    expect([statuses(a), statuses(b)]).toEqual([
      ["resolved", "active"],
      ["resolved", "active"],
    ]);
    expect(originOf(b.goal.state, act.uid)).toBe("from a pull, signed by ann");
    await a.pull(b);
    await b.pull(a);
    expect(b.files()).toEqual(a.files());
  });

  describe("that are forged", () => {
    interface Forged {
      readonly events: readonly string[];
      readonly text: string;
    }
    const cases: [string, (key: string, wanted: string, other: string) => Promise<Forged>][] = [
      [
        "by a key that is not allowed",
        async (_, uid) => ({
          events: [uid],
          text: await sign(makeKey("eve"), signedText("checkout", [uid])),
        }),
      ],
      [
        "over other content",
        async (key, uid) => ({ events: [uid], text: await sign(key, "something else") }),
      ],
      [
        "moved from another event",
        async (key, uid, other) => ({
          events: [uid],
          text: await sign(key, signedText("checkout", [other])),
        }),
      ],
      [
        "moved from another goal",
        async (key, uid) => ({ events: [uid], text: await sign(key, signedText("invoices", [uid])) }),
      ],
      [
        "grown by an event that was not signed",
        async (key, uid, other) => ({
          events: [other, uid],
          text: await sign(key, signedText("checkout", [other])),
        }),
      ],
      [
        "made for the answer to a call",
        async (key, uid) => ({
          events: [uid],
          text: await sign(key, signedText("checkout", [uid]), "answer"),
        }),
      ],
      [
        "of random text",
        async (_, uid) => ({ events: [uid], text: "-----BEGIN SSH SIGNATURE-----\nAAAA\n" }),
      ],
      [
        "of the allowed key's public half alone",
        async (key, uid) => {
          const whole = await sign(key, signedText("checkout", [uid]));
          return {
            events: [uid],
            text: whole.replace(/[A-Za-z0-9]{6}(?=[A-Za-z0-9+/]*=*\n-----END)/, "AAAAAA"),
          };
        },
      ],
    ];
    test.each(cases)("%s have no effect, and wait for a person", async (_name, forged) => {
      const key = makeKey("ann");
      allow("ann", key, ["act", "answer"]);
      const { a } = await twoClones();
      const act = resolution(a, "B-001");
      const { events, text } = await forged(key, act.uid, a.goal.state.names.get("B-002") ?? "");
      plant(a, [act, signature(events, text)]);
      await a.folder.sync();
      expect(statuses(a)).toEqual(["active", "active"]);
      expect(a.goal.state.waiting).toMatchObject([{ uid: act.uid }]);
      expect(a.goal.state.signed.size).toBe(0);
      expect(originOf(a.goal.state, act.uid)).toBe("from a pull, unsigned");
    });
  });

  test("do not count by a list of signers inside the repository, or one that others can write", async () => {
    const key = makeKey("ann");
    const { a, b } = await twoClones(key);
    await a.goal.resolve({ blocker: "B-001", resolution: "reviewed" });
    process.env["XDG_CONFIG_HOME"] = join(b.root, ".config");
    allow("ann", key);
    await b.pull(a);
    expect(statuses(b)).toEqual(["active", "active"]);
    expect(warnings.join()).toContain("it is inside the project, where a pull could write it");
    process.env["XDG_CONFIG_HOME"] = join(folder, "config");
    allow("ann", key);
    chmodSync(join(folder, "config/holdfast/allowed_signers"), 0o666);
    expect(await goalCore(b.goal).checkSignatures()).toBe(false);
    expect(warnings.join()).toContain("other users can write it");
    expect(statuses(b)).toEqual(["active", "active"]);
  });

  test("a key that does not sign leaves the act unsigned, and says what to do", async () => {
    const { a, b } = await twoClones(join(folder, "gone"));
    await a.goal.resolve({ blocker: "B-001", resolution: "reviewed" });
    expect(statuses(a)).toEqual(["resolved", "active"]);
    expect(warnings.join()).toMatch(/the act counts here, unsigned/);
    await b.pull(a);
    expect(statuses(b)).toEqual(["active", "active"]);
  });

  test("wait where ssh-keygen is missing, and a warning says so", async () => {
    const key = makeKey("ann");
    allow("ann", key);
    const { a, b } = await twoClones(key);
    await a.goal.resolve({ blocker: "B-001", resolution: "reviewed" });
    await a.folder.sync();
    mkdirSync(join(folder, "empty"));
    process.env["PATH"] = join(folder, "empty");
    await b.pull(a);
    process.env["PATH"] = before.path;
    expect(statuses(b)).toEqual(["active", "active"]);
    expect(warnings.join()).toContain("ssh-keygen cannot be started");
  });

  test("a thousand forged signatures start no thousand programs", async () => {
    const key = makeKey("ann");
    allow("ann", key);
    const bin = join(folder, "bin");
    const trace = join(folder, "trace");
    mkdirSync(bin);
    writeFileSync(trace, "");
    const real = execFileSync("which", ["ssh-keygen"], { encoding: "utf8" }).trim();
    writeFileSync(join(bin, "ssh-keygen"), `#!/bin/sh\necho run >> '${trace}'\nexec '${real}' "$@"\n`);
    chmodSync(join(bin, "ssh-keygen"), 0o755);
    const { a } = await twoClones();
    const act = resolution(a, "B-001");
    const stolen = await sign(key, "another text");
    const eve = await sign(makeKey("eve"), signedText("checkout", [act.uid]));
    const proofs = Array.from({ length: 1_000 }, (_, c) =>
      forge({
        ...{ t: AT, c: c + 10, at: AT, type: "event.signed" },
        data: { by: ann, events: [act.uid], signature: c % 2 === 0 ? stolen : eve },
      }),
    );
    process.env["PATH"] = `${bin}:${before.path ?? ""}`;
    plant(a, [act, ...proofs]);
    await a.folder.sync();
    expect(statuses(a)).toEqual(["active", "active"]);
    expect(readFileSync(trace, "utf8").split("\n").length).toBeLessThan(70);
  });
});
