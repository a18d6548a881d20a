// A store is exported completely, also while other processes write to it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../src/index.ts";
import { Context, OPERATIONS, perform } from "../../src/operations/index.ts";

const SESSIONS = 250;

let folder: string;
let holdfast: Holdfast;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-export-"));
  holdfast = await open(join(folder, "store.db"));
});
afterEach(async () => {
  await holdfast.close();
  rmSync(folder, { recursive: true, force: true });
});

async function say(id: string): Promise<void> {
  const session = await holdfast.session(id);
  await session.append({ role: "user", blocks: [{ kind: "text", text: "Go." }] });
  await session.close();
}

test("streams that change during the listing are exported, and so are parents of forks", async () => {
  await say("eldest");
  await holdfast.sessions.fork("eldest", "fork");
  await say("next-eldest");
  for (let index = 0; index < SESSIONS; index++) await say(`session-${index}`);
  const context = await Context.of({
    cwd: folder,
    store: join(folder, "store.db"),
    by: { name: "ann", role: "human" },
    caller: "person",
  });
  const { store } = (await context.holdfast()).journal;
  const { list } = store;
  let pages = 0;
  store.list = async function (request) {
    const page = await list.call(this, request);
    if (request.of === "streams") pages += 1;
    if (pages === 1) for (const id of ["eldest", "next-eldest"]) await say(id);
    return page as never;
  };
  const operation = OPERATIONS.get("export");
  if (!operation) throw new Error("there is no export");
  const report = await perform(operation, context, { file: join(folder, "all.jsonl") });
  await context.close();
  expect(pages).toBeGreaterThan(1);
  expect(report).toMatchObject({ streams: SESSIONS + 3 });
});
