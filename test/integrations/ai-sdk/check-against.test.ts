// `holdfast check --against <program>`: a session is killed in a tool, another release is about to be
// deployed. The command lists the sessions that it could not continue, and starts nothing itself.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { open } from "../../../src/index.ts";
import { runInside } from "../../cli/inside.ts";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";
import { IS_SDK_7 } from "./paying-model.ts";
import type { Release } from "./programs/release.ts";

// Bundling and each start of Node take seconds on a busy machine.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const PROGRAM = programFile(
  new URL("programs/release.ts", import.meta.url),
  IS_SDK_7 ? "ai-sdk-7" : "agents",
);
const folder = mkdtempSync(join(quickFolder(), "holdfast-release-"));
const store = join(folder, "store.db");
const world = join(folder, "world.log");
const OLD: Release = { world, system: "You pay orders." };

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** One session has answered, one was killed in a charge, and one in a read after its first turn. */
beforeAll(() => {
  const start = (session: string, release: Release) => {
    const env = { ...process.env, RELEASE: JSON.stringify(release) };
    const { status, signal, stderr } = spawnSync(process.execPath, [PROGRAM, store, session], { env });
    return { status, signal, stderr: signal ? "" : String(stderr) };
  };
  expect(start("answered", OLD)).toEqual({ status: 0, signal: null, stderr: "" });
  expect(start("charging", { ...OLD, dieIn: "charge" })).toMatchObject({ signal: "SIGKILL" });
  expect(start("reading", { ...OLD, dieIn: "find" })).toMatchObject({ signal: "SIGKILL" });
});

interface Checked {
  readonly code: number;
  readonly verdicts: Readonly<Record<string, string>>;
  readonly problems: readonly string[];
}

/** Checks a release, and asserts that nothing happened: not in the world, and not in the store. */
async function check(release: Partial<Release>): Promise<Checked> {
  const before = [readFileSync(world, "utf8"), await rowsOf()];
  const args = ["check", "--against", PROGRAM, "--store", store, "--json"];
  const { code, out, err } = await runInside(folder, args, {
    RELEASE: JSON.stringify({ ...OLD, ...release }),
  });
  expect(err).toBe("");
  expect([readFileSync(world, "utf8"), await rowsOf()]).toEqual(before);
  const { ok, sessions } = JSON.parse(out).data as {
    ok: boolean;
    sessions: { session: string; verdict: string; problems: { what: string }[] }[];
  };
  expect(ok).toBe(code === 0);
  return {
    code,
    verdicts: Object.fromEntries(sessions.map(({ session, verdict }) => [session, verdict])),
    problems: sessions.flatMap((each) => each.problems.map(({ what }) => what)),
  };
}

async function rowsOf(): Promise<unknown> {
  const holdfast = await open(store, { readOnly: true });
  const { rows } = await holdfast.journal.list<"streams">({ of: "streams", limit: 50 });
  await holdfast.close();
  return rows.map(({ stream, head, facets }) => ({ stream, head, facets }));
}

test("an unchanged release continues every live session, and sessions that have answered are not checked", async () => {
  const ok = { code: 0, verdicts: { charging: "ok", reading: "ok" }, problems: [] };
  expect(await check({})).toEqual(ok);
  expect(await check({ streams: true })).toEqual(ok);
});

test("a changed system text diverges, unless the release adopts the record", async () => {
  for (const streams of [false, true]) {
    const { code, verdicts, problems } = await check({ system: "You pay orders politely.", streams });
    expect({ code, verdicts }).toEqual({ code: 5, verdicts: { charging: "diverges", reading: "diverges" } });
    expect(problems[0]).toMatch(/turn 0 of run "pay" is on record with another prompt/);
  }
  const adopted = await check({ system: "You pay orders politely.", onDiverge: "adopt" });
  expect(adopted).toMatchObject({ code: 0, verdicts: { charging: "ok", reading: "ok" } });
});

test("an open call of a tool that is gone, or that refuses its arguments, is listed", async () => {
  const gone = await check({ lacks: "charge" });
  expect(gone).toMatchObject({ code: 5, verdicts: { charging: "tool gone", reading: "ok" } });
  expect(gone.problems).toEqual([
    expect.stringMatching(/of charge is open, and the program has no such tool/),
  ]);
  const changed = await check({ chargeNeedsCurrency: true });
  expect(changed).toMatchObject({ code: 5, verdicts: { charging: "tool changed", reading: "ok" } });
});

test("a session that the program does not continue is skipped", async () => {
  expect(await check({ ignores: "reading" })).toMatchObject({
    code: 0,
    verdicts: { charging: "ok", reading: "skipped" },
  });
});

test("the page names sessions and reasons; a file without a function is refused", async () => {
  const env = { RELEASE: JSON.stringify({ ...OLD, system: "Other" }) };
  const { code, out } = await runInside(folder, ["check", "--against", PROGRAM, "--store", store], env);
  expect(code).toBe(5);
  expect(out).toMatch(/^! charging diverges: /m);
  expect(out).toMatch(/^0 live sessions ok, 2 not, 0 skipped$/m);
  const wrong = await runInside(folder, ["check", "--against", "missing.mjs", "--store", store]);
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining("missing.mjs") });
});
