// A portable file carries everything that prevents an effect from happening twice, or from being skipped by
// mistake.

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DefiniteFailure, type Holdfast, type Model, open, tool } from "../../src/index.ts";
import { Context, OPERATIONS, perform } from "../../src/operations/index.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { append, write } from "../stores/sqlite/acts.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-portable-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function act(name: "export" | "import", store: string, file = "all.hf"): Promise<unknown> {
  const operation = OPERATIONS.get(name);
  if (!operation) throw new Error(`there is no ${name}`);
  const address = join(folder, store);
  const context = await Context.of({
    cwd: folder,
    store: address,
    by: { name: "ann", role: "human" },
    caller: "person",
  });
  try {
    return await perform(operation, context, { file: join(folder, file) });
  } finally {
    await context.close();
  }
}

async function within<Result>(store: string, use: (holdfast: Holdfast) => Promise<Result>): Promise<Result> {
  const holdfast = await open(join(folder, store));
  try {
    return await use(holdfast);
  } finally {
    await holdfast.close();
  }
}

const say = (store: string, id: string, text = "Hello.") =>
  within(store, async (holdfast) => {
    const session = await holdfast.session(id);
    await session.append({ role: "user", text });
    await session.close();
  });

const prune = (store: string) =>
  within(store, async (holdfast) => (await holdfast.sessions.prune({ keep: 0 })).removed);

const texts = (store: string, id: string) =>
  within(store, async (holdfast) => {
    const { messages } = await holdfast.sessions.get(id);
    return messages.flatMap(({ blocks }) => (blocks[0]?.kind === "text" ? [blocks[0].text] : []));
  });

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

const calling: Model = async ({ messages }) => {
  if (messages.at(-1)?.role === "tool") return { message: { text: "Done." } };
  return { message: { blocks: [{ kind: "tool_call", id: "c", name: "charge", args: { order: 4711 } }] } };
};

/** Runs a session that charges, completes it, and returns the keys that the vendor was handed. */
async function pay(
  store: string,
  id: string,
  { dedupe, fails = false }: { dedupe?: "global"; fails?: boolean } = {},
): Promise<string[]> {
  const handed: string[] = [];
  const charge = tool({
    name: "charge",
    description: "Charge a card",
    effect: "mutate",
    input: anything,
    ...(dedupe && { dedupe }),
    execute: async (_, { key }) => {
      handed.push(key);
      if (fails) throw new DefiniteFailure("the card was refused");
      return { ok: true };
    },
  });
  await within(store, async (holdfast) => {
    const session = await holdfast.session(id);
    await session.run({ model: calling, tools: [charge], prompt: "Pay." });
    await session.complete();
    await session.close();
  });
  return handed;
}

/** The lines that the agent in `programs/` prints. */
function agent(store: string, mode: "die" | "finish"): Promise<string[]> {
  const program = programFile(new URL("../journal/move/programs/sub-agent-payer.ts", import.meta.url));
  return new Promise((resolve) => {
    execFile(process.execPath, [program, join(folder, store), mode], (_error, out) => {
      resolve(out.split("\n").filter((line) => line !== ""));
    });
  });
}

describe("a session's generation", () => {
  test("is the same in another store, so its sub-agent's effects are not repeated", async () => {
    await say("a.db", "parent");
    await prune("a.db");
    expect(await agent("a.db", "die"), "in its second life").toEqual([expect.stringMatching(/^charge /)]);
    await act("export", "a.db");
    await act("import", "b.db");
    expect(await agent("b.db", "finish")).toEqual(["done all done"]);
  });

  test("is not reused after it ended: the next one hands the vendor new keys", async () => {
    const [first] = await pay("a.db", "d");
    await prune("a.db");
    await act("export", "a.db");
    await act("import", "b.db");
    await act("import", "b.db");
    const [second] = await pay("b.db", "d");
    expect(second).not.toBe(first);
    expect(await pay("a.db", "d"), "as it would have been here").toEqual([second]);
  });

  test("is not confused with another while it has open calls", async () => {
    await agent("a.db", "die");
    await act("export", "a.db");
    expect(await agent("a.db", "finish")).toContain("done all done");
    await prune("a.db");
    await expect(act("import", "a.db")).rejects.toMatchObject({
      code: "STREAM_EXISTS",
      message: expect.stringContaining("session/parent"),
    });
    await act("import", "b.db");
    expect(await agent("b.db", "finish")).toEqual(["done all done"]);
  });
});

describe("a global key of a removed session", () => {
  test("is claimed in another store as well", async () => {
    expect(await pay("a.db", "first", { dedupe: "global" })).toHaveLength(1);
    await prune("a.db");
    await act("export", "a.db");
    await act("import", "b.db");
    expect(await pay("b.db", "second", { dedupe: "global" })).toEqual([]);
    expect(await act("import", "b.db"), "twice changes nothing").toMatchObject({ added: 0 });
  });

  test("stays claimed if a session of that name is created again", async () => {
    await pay("a.db", "s", { dedupe: "global" });
    await prune("a.db");
    await say("a.db", "s", "Again.");
    await act("export", "a.db");
    await act("import", "b.db");
    expect(await texts("b.db", "s")).toEqual(["Again."]);
    expect(await pay("b.db", "other", { dedupe: "global" })).toEqual([]);
  });

  test("does not block an import into the store of its export", async () => {
    await pay("a.db", "s", { dedupe: "global" });
    await say("a.db", "z");
    await act("export", "a.db");
    expect(await prune("a.db")).toEqual(["z", "s"]);
    expect(await act("import", "a.db")).toMatchObject({ streams: 2 });
    expect(await texts("a.db", "s")).toContain("Done.");
    expect(await texts("a.db", "z")).toEqual(["Hello."]);
    expect(await pay("a.db", "other", { dedupe: "global" })).toEqual([]);
    expect(await act("import", "a.db")).toMatchObject({ added: 0 });
    expect(await prune("a.db")).toContain("s");
    expect(await pay("a.db", "yet-another", { dedupe: "global" }), "and for ever").toEqual([]);
  });

  test("is not released by an export from before the claim", async () => {
    await pay("a.db", "s", { dedupe: "global", fails: true });
    await act("export", "a.db");
    await prune("a.db");
    expect(await pay("a.db", "s", { dedupe: "global" }), "now it works").toHaveLength(1);
    await prune("a.db");
    await act("import", "a.db");
    expect(await pay("a.db", "other", { dedupe: "global" })).toEqual([]);
  });
});

test("a key that failed in one session and was claimed by the next is imported in either order", async () => {
  await pay("a.db", "failing", { dedupe: "global", fails: true });
  expect(await pay("a.db", "paying", { dedupe: "global" })).toHaveLength(1);
  await act("export", "a.db");
  await act("import", "b.db");
  expect(await pay("b.db", "other", { dedupe: "global" })).toEqual([]);
});

test("nothing of a file is imported if one of its sessions cannot be", async () => {
  await say("a.db", "one");
  await say("a.db", "two");
  await act("export", "a.db");
  await say("b.db", "one", "Something else.");
  await expect(act("import", "b.db")).rejects.toMatchObject({
    code: "STREAM_EXISTS",
    message: expect.stringContaining("session/one"),
  });
  await within("b.db", async (holdfast) => {
    expect((await holdfast.sessions.list()).sessions.map(({ id }) => id)).toEqual(["one"]);
  });
});

describe("a damaged record", () => {
  const damage = (text: string): void => {
    const database = new DatabaseSync(join(folder, "a.db"));
    database.prepare("UPDATE writes SET payload = replace(payload, ?, '9')").run(text);
    database.close();
  };

  test("is reported, and only its session and the forks of it are left out", async () => {
    const bytes = new Uint8Array(3 * 1024 * 1024).map((_, index) => index % 251);
    await say("a.db", "before", "sound");
    await within("a.db", async (holdfast) => {
      const artifact = await holdfast.putArtifact(bytes);
      const session = await holdfast.session("damaged");
      // More than an export keeps in memory: a part is written before the damage is found.
      await session.append({ role: "user", blocks: [{ kind: "file", artifact, mediaType: "x/y" }] });
      await session.append({ role: "user", text: "1234567" });
      await holdfast.sessions.fork("damaged", "fork");
      await session.close();
      const other = await holdfast.session("shares");
      await other.append({ role: "user", blocks: [{ kind: "file", artifact, mediaType: "x/y" }] });
      await other.close();
    });
    await say("a.db", "after", "sound");
    damage("1234567");
    const report = (await act("export", "a.db")) as { damaged: { stream: string; why: string }[] };
    expect(report).toMatchObject({ streams: 3, artifacts: 1, left: [] });
    expect(report.damaged.map(({ stream }) => stream).sort()).toEqual(["session/damaged", "session/fork"]);
    expect(report.damaged.find(({ stream }) => stream === "session/damaged")?.why).toContain("checksum");
    expect(await act("import", "b.db")).toMatchObject({ streams: 3, artifacts: 1 });
    const ids = await within("b.db", async ({ sessions }) =>
      (await sessions.list()).sessions.map(({ id }) => id),
    );
    expect(ids.sort()).toEqual(["after", "before", "shares"]);
    expect(await texts("b.db", "after")).toEqual(["sound"]);
  });

  test("releases no global key", async () => {
    expect(await pay("a.db", "d", { dedupe: "global" })).toHaveLength(1);
    damage("Pay.");
    expect(await act("export", "a.db")).toMatchObject({ streams: 0, damaged: [{ stream: "session/d" }] });
    await act("import", "b.db");
    expect(await pay("b.db", "e", { dedupe: "global" }).catch(() => [])).toEqual([]);
  });
});

test("records of supervisors about their workers are counted, and not reported as lost", async () => {
  await within("a.db", async (holdfast) => {
    const session = await holdfast.session("s");
    await session.append({ role: "user", text: "Hello." });
    await session.close();
    await append(holdfast.journal.store, write("worker/8066fd2d", 0, ["note"]));
    await append(holdfast.journal.store, write("graph/g", 0, ["of an integration"]));
  });
  expect(await act("export", "a.db")).toMatchObject({ left: ["graph/g"], supervisorNotes: 1 });
});

describe("the lines of a file", () => {
  const MIB = 1024 * 1024;

  test("are short, however large an artifact or a text is, and both arrive complete", async () => {
    const bytes = new Uint8Array(2.5 * MIB + 1).map((_, index) => (index * index) % 251);
    const text = `${"x".repeat(2 * MIB)}\u{1f600}${'"\u2028'.repeat(0.75 * MIB)}`;
    const hash = await within("a.db", async (holdfast) => {
      const stored = await holdfast.putArtifact(bytes);
      const session = await holdfast.session("s");
      await session.append({
        role: "user",
        blocks: [
          { kind: "text", text },
          { kind: "file", artifact: stored, mediaType: "x/y" },
        ],
      });
      await session.close();
      return stored;
    });
    await act("export", "a.db");
    const lines = readFileSync(join(folder, "all.hf"), "utf8").split("\n");
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(3 * MIB);
    await act("import", "b.db");
    expect((await texts("b.db", "s")).map((each) => each === text)).toEqual([true]);
    const arrived = await within("b.db", (holdfast) => holdfast.getArtifact(hash));
    expect(Buffer.compare(arrived, bytes)).toBe(0);
  });

  test("of an export in another format are rejected with a reason", async () => {
    writeFileSync(join(folder, "all.hf"), '{"holdfast":"export","version":1,"at":"2026-01-01T00:00:00Z"}\n');
    await expect(act("import", "b.db")).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining("version 1"),
      hint: expect.stringContaining("Export it again"),
    });
    expect(existsSync(join(folder, "b.db"))).toBe(false);
  });
});
