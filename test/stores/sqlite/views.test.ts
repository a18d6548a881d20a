// A person with the `sqlite3` shell can read everything without the library.

import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { ISO, testViews } from "../views.ts";
import { TestFolder } from "./folder.ts";
import { hasShell } from "./processes.ts";

let folder: TestFolder;

/** Rows as the shell prints them; through the driver if there is no shell. */
async function query(sql: string): Promise<unknown[]> {
  if (hasShell) {
    const printed = execFileSync("sqlite3", ["-json", "-readonly", folder.file(), sql], { encoding: "utf8" });
    return printed === "" ? [] : JSON.parse(printed);
  }
  const connection = await Connection.open(folder.file(), true);
  try {
    return JSON.parse(JSON.stringify(connection.all(sql)));
  } finally {
    await connection.close();
  }
}

beforeEach(async () => {
  folder = await TestFolder.make();
});
afterEach(() => folder.dispose());

testViews({
  open: () => folder.open(),
  query,
  arrayLength: "json_array_length",
  json: (value) => JSON.stringify(value),
  flag: Number,
});

test("the views agree with real sessions", async () => {
  const holdfast = await open(folder.file());
  const session = await holdfast.session("real");
  for (const text of ["one", "two", "three"])
    await session.append({ role: "user", text }, { checkpoint: true });
  await holdfast.sessions.fork("real", "branch", { version: 2 });
  await session.deleteVersion(1);
  await session.compact([
    { id: "s", role: "user", createdAt: ISO, blocks: [{ kind: "text", text: "in short" }] },
  ]);
  await session.close();
  const branch = await holdfast.session("branch");
  await branch.deleteVersion(2);
  await branch.append({ role: "user", text: "four" }, { checkpoint: true });
  await branch.close();
  for (const name of ["real", "branch"]) {
    const { versions } = await holdfast.sessions.get(name);
    const sql = `SELECT version, seq FROM checkpoints WHERE session_id = '${name}' ORDER BY version`;
    expect(await query(sql), name).toEqual(versions.map(({ version, seq }) => ({ version, seq })));
  }
  expect(
    await query("SELECT text FROM messages WHERE event = 'transcript.replaced' AND session_id = 'real'"),
  ).toEqual([{ text: "in short" }]);
  await holdfast.close();
});
