// The file of `export`, written and read by real processes, also on a full disk.

import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { append, write } from "../stores/sqlite/acts.ts";
import { CommandLine, environment, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

function ran(command: string, args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(command, args, { cwd: line.project, env: environment() }, (_error, out, err) => {
      resolve({ code: child.exitCode ?? -1, out, err });
    });
    child.stdin?.end();
  });
}

async function say(store: string, text: string): Promise<void> {
  const holdfast = await open(join(line.project, store));
  const session = await holdfast.session("s");
  await session.append({ role: "user", text });
  await session.close();
  await holdfast.close();
}

// Node's line reader splits at some of these since Node 24.
test("characters that only some programs treat as line ends stay within their line", async () => {
  const text = "one\u2028two\u2029three\u0085four\rfive";
  await say("separated.db", text);
  const run = (...args: string[]) => ran(process.execPath, [line.cli, ...args]);
  expect(await run("export", "separated.hf", "--store", "./separated.db")).toMatchObject({
    code: 0,
    err: "",
  });
  expect(await run("import", "separated.hf", "--store", "./other.db")).toMatchObject({ code: 0, err: "" });
  const holdfast = await open(join(line.project, "other.db"));
  expect((await holdfast.sessions.get("s")).messages[0]?.blocks).toEqual([{ kind: "text", text }]);
  await holdfast.close();
});

test("damaged data is named and the rest is written; notes of supervisors take one line", async () => {
  await say("partly.db", "1234567");
  const holdfast = await open(join(line.project, "partly.db"));
  await holdfast.goal("g", { statement: "Ship it" });
  await append(holdfast.journal.store, write("worker/a", 0, ["note"]));
  await append(holdfast.journal.store, write("worker/b", 0, ["note"]));
  await holdfast.close();
  const database = new DatabaseSync(join(line.project, "partly.db"));
  database.exec("UPDATE writes SET payload = replace(payload, '1234567', '9234567')");
  database.close();
  const { code, out, err } = await runInside(line.project, ["export", "p.hf", "--store", "partly.db"]);
  expect({ code, err }).toEqual({ code: 5, err: "" });
  expect(out.split("\n")).toEqual([
    expect.stringMatching(/p\.hf: 1 goals and sessions/),
    expect.stringMatching(/^! left out, cannot be read: session\/s \(.*checksum/),
    "left out 2 supervisor records, which a supervisor creates again",
    "",
  ]);
  expect(await runInside(line.project, ["import", "p.hf", "--store", "rest.db"])).toMatchObject({ code: 0 });
});

// A file size limit acts like a full disk: one write is partial, and the next fails.
test.skipIf(process.platform === "win32")(
  "a full disk is reported, and no partial file is left",
  async () => {
    await say("large.db", "x".repeat(3_000_000));
    const limited = 'ulimit -f 2048; exec "$@"';
    const words = [process.execPath, line.cli, "export", "large.hf", "--store", "./large.db"];
    const { code, err } = await ran("bash", ["-c", limited, "bash", ...words]);
    expect(code).toBe(1);
    expect(err).toContain("large.hf cannot be written (EFBIG)");
    expect(err).toContain("Free space, or name a file on another disk");
    expect(err).not.toMatch(/fault in Holdfast|\n {4}at /);
    expect(readdirSync(line.project).filter((name) => name.startsWith("large.hf"))).toEqual([]);
  },
);
