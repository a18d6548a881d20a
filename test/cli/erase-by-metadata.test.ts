// `holdfast session erase --metadata` erases all sessions of one user, and no others.

import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let project: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(async () => {
  project = line.newProject();
  const holdfast = await open(join(project, ".holdfast"));
  const users = { a1: "ann=ops@example.com", a2: "ann=ops@example.com", b1: "bob" };
  for (const [id, user] of Object.entries(users)) {
    const session = await holdfast.session(id, { metadata: { user, tier: id === "a2" ? "gold" : "free" } });
    await session.append({ role: "user", blocks: [{ kind: "text", text: `words of ${id}` }] });
    await session.close();
  }
  await holdfast.close();
});

const run = (...words: string[]): Promise<Ran> => runInside(project, words);
const ANN = "user=ann=ops@example.com";

async function left(): Promise<string[]> {
  const { code, out, err } = await run("session", "list", "--json");
  expect(code, err).toBe(0);
  const { data } = JSON.parse(out) as { data: { sessions: { session: string }[] } };
  return data.sessions.map(({ session }) => session).sort();
}

test("--dry-run names the user's sessions and erases none", async () => {
  const { code, out, err } = await run("session", "erase", "--metadata", ANN, "--dry-run");
  expect(code, err).toBe(0);
  expect(out).toContain("a1");
  expect(out).toContain("a2");
  expect(out).not.toContain("b1");
  expect(await left()).toEqual(["a1", "a2", "b1"]);
});

test("with --yes exactly the user's sessions are erased, and the report is JSON on demand", async () => {
  const { code, out, err } = await run("session", "erase", "--metadata", ANN, "--yes", "--json");
  expect(code, err).toBe(0);
  const { data } = JSON.parse(out) as { data: { erased: string[]; spared: unknown[] } };
  expect({ erased: data.erased.toSorted(), spared: data.spared }).toEqual({
    erased: ["a1", "a2"],
    spared: [],
  });
  expect(await left()).toEqual(["b1"]);
});

test("several values must all fit", async () => {
  const { code, err } = await run("session", "erase", "--metadata", ANN, "tier=gold", "--yes");
  expect(code, err).toBe(0);
  expect(await left()).toEqual(["a1", "b1"]);
});

test.each([
  { typed: ["--metadata", ANN], says: "needs --yes", why: "without a terminal nobody was asked" },
  { typed: ["--metadata", "user", "--yes"], says: "has no value", why: "a name alone would fit everyone" },
  { typed: ["--metadata", "=ann", "--yes"], says: "has no value", why: "no name" },
  { typed: ["--yes"], says: "", why: "neither an id nor metadata: not everything" },
])("$typed is refused: $why", async ({ typed, says }) => {
  const { code, out, err } = await run("session", "erase", ...typed);
  expect(code).toBe(2);
  expect(out + err).toContain(says);
  expect(await left()).toEqual(["a1", "a2", "b1"]);
});

test("a session that a process holds is spared, and the command says so", async () => {
  const holdfast = await open(join(project, ".holdfast"));
  const held = await holdfast.session("a1");
  try {
    const { code, out } = await run("session", "erase", "--metadata", ANN, "--yes");
    expect(code, "something is left to do").not.toBe(0);
    expect(out).toContain("a process holds it");
    expect(await left()).toEqual(["a1", "b1"]);
  } finally {
    await held.close();
    await holdfast.close();
  }
});
