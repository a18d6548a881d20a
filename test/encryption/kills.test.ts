// A kill at any moment leaves no session without its key, and no key of a session that was erased.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { aesGcm, open } from "../../src/index.ts";
import { sessionKind } from "../../src/model/session/index.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { KEY } from "./places.ts";

const writer = programFile(new URL("../session/programs/encrypted-writer.ts", import.meta.url));
let folder = "";
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the program and kills it as soon as it has printed `lines` lines, wherever it is by then. */
function killedAfter(lines: number, args: readonly string[]): Promise<string[]> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [writer, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (chunk) => {
      said += String(chunk);
      if (said.split("\n").length > lines) child.kill("SIGKILL");
    });
    child.on("close", () => resolve(said.split("\n").slice(0, -1)));
  });
}

function keyFiles(ring: string): string[] {
  const streams = readdirSync(ring, { withFileTypes: true }).filter((each) => each.isDirectory());
  return streams.flatMap(({ name }) =>
    readdirSync(join(ring, name)).filter((file) => !file.endsWith(".new")),
  );
}

test.each([1, 4, 5, 6, 11, 12, 20])("a kill after %i lines", async (lines) => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-killed-"));
  const [store, ring] = [join(folder, "store.db"), join(folder, "keys")];
  const said = await killedAfter(lines, [store, ring, KEY]);
  expect(said.length).toBeGreaterThanOrEqual(lines);

  const numbers = (verb: string): string[] =>
    said.filter((each) => each.startsWith(`${verb} `)).map((each) => each.slice(verb.length + 1));
  const erasing = new Set(numbers("erasing"));
  await using holdfast = await open(store, { encryption: aesGcm({ keys: { a: KEY }, ring }), leaseMs: 50 });
  for (const n of numbers("written").filter((each) => !erasing.has(each))) {
    const { state } = await holdfast.journal.load(sessionKind, `s${n}`);
    expect(JSON.stringify(sessionKind.encode(state))).toContain(`message ${n}`);
  }
  // Every session that is listed can be read, also one that the kill left half erased.
  const { sessions } = await holdfast.sessions.list({ limit: 200 });
  for (const { id, title } of sessions) {
    expect(title).toBe(`title ${id.slice(1)}`);
    await holdfast.journal.load(sessionKind, id);
  }
  for (const { id } of sessions) await holdfast.sessions.erase(id);
  for (const n of erasing) await holdfast.sessions.erase(`s${n}`).catch(() => undefined);
  // The last session may have got its key without a first write; erasing its name takes that too.
  await holdfast.sessions.erase(`s${numbers("written").length + 1}`).catch(() => undefined);
  expect(keyFiles(ring)).toEqual([]);
});
