// Assumptions: recorded, then confirmed or refuted; in the files, the briefing, by hand and after a merge.

import { readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Copy, WallClock } from "./copies.ts";

const copies: Copy[] = [];
const made = async (...given: Parameters<typeof Copy.make>) => {
  const copy = await Copy.make(...given);
  copies.push(copy);
  return copy;
};
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.dispose();
});

const pathOf = (copy: Copy, name: string) => join(copy.root, ".planning", name);

async function edit(copy: Copy, name: string, change: (text: string) => string): Promise<void> {
  const before = readFileSync(pathOf(copy, name), "utf8");
  const after = change(before);
  expect(after).not.toBe(before);
  writeFileSync(pathOf(copy, name), after);
  utimesSync(pathOf(copy, name), 1_000_000_000, 1_000_000_000);
  await copy.folder.sync();
}

test("an assumption is shown until it is settled, and a refuted one stays as a warning", async () => {
  const copy = await made(new WallClock());
  const { goal } = copy;
  for (const text of ["amounts are in cents", "the vendor rounds up"]) await goal.assume({ text });
  await copy.folder.sync();
  expect(await goal.briefing()).toContain('ASSUMED A-001 by ann, unchecked: "amounts are in cents"');
  expect(copy.files()["STATE.md"]).toContain("## Assumptions\n\n- A-001 amounts are in cents\n");
  await goal.settle({ assumption: "A-001", status: "confirmed", evidence: "the docs" });
  await goal.settle({ assumption: "A-002", status: "refuted", evidence: "12.5 came back" });
  await copy.folder.sync();
  const text = await goal.briefing();
  expect(text).not.toContain("A-001");
  expect(text).toContain('REFUTED A-002: "the vendor rounds up", because "12.5 came back"');
  const { assumptions } = JSON.parse(copy.files()["agent_state.json"] ?? "");
  expect(assumptions).toMatchObject([
    { id: "A-001", status: "confirmed", evidence: "the docs" },
    { id: "A-002", status: "refuted", evidence: "12.5 came back" },
  ]);
  const again = goal.settle({ assumption: "A-002", status: "refuted", evidence: "e" });
  await expect(again).rejects.toMatchObject({ code: "INPUT_INVALID" });
});

test("a person adds and settles assumptions in STATE.md and agent_state.json", async () => {
  const copy = await made(new WallClock());
  const { goal } = copy;
  await goal.assume({ text: "amounts are in cents" });
  await copy.folder.sync();
  await edit(copy, "STATE.md", (page) =>
    page.replace(/^(- A-001 .*)$/m, "$1 => refuted: 12.5 came back\n- the vendor rounds up"),
  );
  const of = (id: string) => goal.state.assumptions.get(id);
  expect(of("A-001")).toMatchObject({ status: "refuted", evidence: "12.5 came back" });
  expect(of("A-002")).toMatchObject({ text: "the vendor rounds up", status: "open", by: { role: "human" } });
  await edit(copy, "agent_state.json", (text) => {
    const state = JSON.parse(text);
    Object.assign(state.assumptions[1], { status: "confirmed", evidence: "the docs" });
    state.assumptions.push({ text: "there is one currency" });
    return JSON.stringify(state, null, 2);
  });
  expect(of("A-002")).toMatchObject({ status: "confirmed", evidence: "the docs" });
  expect(of("A-003")).toMatchObject({ text: "there is one currency", status: "open" });
});

test("two copies that assume and settle meanwhile end with the same assumptions", async () => {
  const clock = new WallClock();
  const [a, b] = [await made(clock), await made(clock, copies[0])];
  await a.goal.assume({ text: "of a" });
  await b.goal.assume({ text: "of b" });
  await b.goal.settle({ assumption: "A-001", status: "confirmed", evidence: "seen by b" });
  await a.pull(b);
  await b.pull(a);
  await a.pull(b);
  expect(a.agreed()).toEqual(b.agreed());
  const rows = [...a.goal.state.assumptions.values()].map(({ id, text, status }) => [id, text, status]);
  expect(rows).toEqual([
    ["A-001", "of a", "open"],
    ["A-002", "of b", "confirmed"],
  ]);
});
