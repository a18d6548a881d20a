// `demo` and `torture` really kill processes.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

test("the demo kills its agent three times, and no effect is lost or doubled", async () => {
  const { code, out, err } = await line.run(["demo", "--json"]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  const { kind, data } = JSON.parse(out);
  expect({ kind, data }).toEqual({
    kind: "demo",
    data: { runs: 4, kills: 3, world: 3, ledger: 3, doubled: 0, lost: 0 },
  });
});

test("torture finds and locates the planted bug of an agent that records too late", async () => {
  const world = mkdtempSync(join(tmpdir(), "holdfast-torture-"));
  const told = ["--setup", `rm -rf ${world} && mkdir ${world}`, "--effects", `cat ${world}/payments.log`];
  const { code, out, err } = await line.run([
    "torture",
    ...told,
    "--",
    process.execPath,
    line.forgetful,
    world,
  ]);
  rmSync(world, { recursive: true, force: true });
  expect({ code, err }).toEqual({ code: 5, err: "" });
  expect(out).toContain("NO  call.executed:1  doubled 4711");
  expect(out).toContain("ok  run.done:1");
  expect(out).toContain("2 kills · 5 runs · lost 0 · doubled 1 · stuck 0");
});
