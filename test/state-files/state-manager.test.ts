import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { Holdfast } from "../../src/open.ts";
import { migrateFile } from "../../src/projections/index.ts";
import { generateState, type Migrations, StateManager } from "../../src/state-files/index.ts";
import { Bench } from "../goal/bench.ts";
import { programFile } from "../program.ts";
import { storeSubjects } from "../subjects.ts";

interface Example {
  schema_version: number;
  tasks: { id: string; status: string }[];
  risks: string[];
}

const schema = {
  type: "object",
  required: ["schema_version", "tasks", "risks"],
  additionalProperties: false,
  properties: {
    schema_version: { const: 2 },
    risks: { type: "array", items: { type: "string" } },
    tasks: {
      type: "array",
      items: {
        type: "object",
        required: ["id", "status"],
        properties: { id: { type: "string", pattern: "^T-\\d{3,}$" }, status: { enum: ["open", "done"] } },
      },
    },
  },
};
const migrations: Migrations = {
  current: 2,
  steps: { 1: ({ blockers, ...rest }) => ({ ...rest, risks: blockers }) },
};
const spec = { schema, migrations, initial: { schema_version: 2, tasks: [], risks: [] } as Example };

let folder: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-state-"));
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

interface Subject {
  readonly name: string;
  open(): Promise<{ another(): StateManager<Example>; stored(): Promise<unknown>; dispose(): Promise<void> }>;
}

const stores = storeSubjects();
const SUBJECTS: Subject[] = [
  {
    name: "a file",
    open: async () => ({
      another: () => StateManager.onFile(join(folder, "state.json"), spec),
      stored: async () => {
        const file = join(folder, "state.json");
        return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
      },
      dispose: async () => undefined,
    }),
  },
  ...stores.map((subject) => ({
    name: subject.name,
    open: async () => {
      const bench = await Bench.open(subject);
      const holdfast = new Holdfast(bench.journal);
      return {
        another: () => StateManager.onStore(holdfast, "example", spec),
        stored: () => StateManager.onStore(holdfast, "example", spec).load(),
        dispose: () => bench.dispose(),
      };
    },
  })),
];
afterAll(async () => {
  for (const store of stores) await store.dispose();
});

describe.each(SUBJECTS)("load, update, commit on $name", (subject) => {
  test("keep committed updates, and no others", async () => {
    const opened = await subject.open();
    const manager = opened.another();
    expect(await manager.load()).toEqual(spec.initial);
    await manager.update((state) => ({ ...state, risks: ["late"] }));
    expect((await opened.another().load()).risks).toEqual([]);
    await manager.commit();
    expect((await opened.another().load()).risks).toEqual(["late"]);
    await manager.update((state) => ({ ...state, risks: [] }));
    expect((await manager.load()).risks).toEqual(["late"]);
    await manager.commit();
    expect((await opened.another().load()).risks).toEqual(["late"]);
    expect(await manager.history()).toEqual([
      { seq: 1, at: expect.any(Date), by: "program", state: { ...spec.initial, risks: ["late"] } },
    ]);
    await opened.dispose();
  });

  test("a bad write is refused with path and rule, and changes nothing", async () => {
    const opened = await subject.open();
    const manager = opened.another();
    await manager.update((state) => ({ ...state, tasks: [{ id: "T-001", status: "open" }] }));
    await manager.commit();
    const before = await opened.stored();
    const bad: [(state: Example) => Example, RegExp][] = [
      [
        (state) => ({ ...state, tasks: [{ id: "T-1", status: "open" }] }),
        /\$\.tasks\[0\]\.id is "T-1", must match pattern/,
      ],
      [
        (state) => ({ ...state, tasks: [{ id: "T-001", status: "wild" }] }),
        /\$\.tasks\[0\]\.status is "wild", must be one of open, done/,
      ],
      [(state) => ({ ...state, tasks: null as never }), /\$\.tasks is null, must be array/],
      [(state) => ({ ...state, extra: 1 }), /\$ may not have "extra"/],
      [({ risks: _risks, ...state }) => state as Example, /\$ lacks "risks"/],
      [
        (state) => ({ ...state, risks: [new Date() as never] }),
        /\$\.risks\[0\] is a Date, which JSON cannot hold/,
      ],
    ];
    for (const [change, message] of bad) await expect(manager.update(change)).rejects.toThrow(message);
    expect(await manager.commit()).toEqual(before);
    expect(await opened.stored()).toEqual(before);
    await opened.dispose();
  });

  test("two managers that read the same and commit one after the other lose nothing", async () => {
    const opened = await subject.open();
    const managers = [opened.another(), opened.another(), opened.another()];
    await Promise.all(managers.map((manager) => manager.load()));
    await Promise.all(
      managers.map(async (manager, index) => {
        for (let turn = 0; turn < 5; turn++) {
          await manager.update((state) => ({ ...state, risks: [...state.risks, `${index}-${turn}`] }));
          await manager.commit();
        }
      }),
    );
    expect((await opened.another().load()).risks).toHaveLength(15);
    await opened.dispose();
  });
});

/** Commits of each process that is not killed. */
const COMMITS = process.env["HOLDFAST_FULL"] ? 40 : 15;

describe("a state in a file", () => {
  const file = () => join(folder, "made", "state.json");
  const log = () => join(folder, "made", "state.events.jsonl");
  const manager = (more: object = {}) => StateManager.onFile<Example>(file(), { ...spec, ...more });
  const addRisk = async (risk: string, by = manager()): Promise<Example> => {
    await by.update((state) => ({ ...state, risks: [...state.risks, risk] }));
    return by.commit();
  };
  const edit = (risks: string[], secondsAgo: number): void => {
    writeFileSync(file(), JSON.stringify({ schema_version: 2, tasks: [], risks }));
    const at = Date.now() / 1_000 - secondsAgo;
    utimesSync(file(), at, at);
  };

  test("its folder is made, and every past state can be read back", async () => {
    await addRisk("one");
    await addRisk("two");
    edit(["by hand"], 60);
    await addRisk("three");
    const past = (await manager().history()).map(({ seq, by, state }) => [seq, by, state?.risks]);
    expect(past).toEqual([
      [1, "program", ["one"]],
      [2, "program", ["one", "two"]],
      [3, "person", ["by hand"]],
      [4, "program", ["by hand", "three"]],
    ]);
    expect(readFileSync(log(), "utf8").split("\n")).toHaveLength(5);
  });

  test("a commit within five seconds of a person's edit is refused, and the edit is kept", async () => {
    await addRisk("agent");
    edit(["HUMAN"], 0);
    await expect(addRisk("agent2")).rejects.toMatchObject({ code: "HUMAN_EDITING", retryable: true });
    expect(JSON.parse(readFileSync(file(), "utf8")).risks).toEqual(["HUMAN"]);
    edit(["HUMAN"], 6);
    expect((await addRisk("agent2")).risks).toEqual(["HUMAN", "agent2"]);
    edit(["HUMAN again"], 0);
    expect((await addRisk("agent3", manager({ quietMs: 0 }))).risks).toEqual(["HUMAN again", "agent3"]);
  });

  test("last_human_touch is kept where the schema has it", async () => {
    const properties = { ...schema.properties, last_human_touch: { type: "string" } };
    const kept = () => manager({ schema: { ...schema, properties } });
    expect(await addRisk("agent", kept())).not.toHaveProperty("last_human_touch");
    edit(["HUMAN"], 3_600);
    const { mtimeMs } = statSync(file());
    for (const risk of ["a", "b"])
      expect(await addRisk(risk, kept())).toMatchObject({
        last_human_touch: new Date(Math.floor(mtimeMs)).toISOString(),
      });
  });

  test("a crash between the log and the file is no person's edit, and a torn line is cut off", async () => {
    await addRisk("one");
    const before = readFileSync(file(), "utf8");
    await addRisk("two");
    // As a kill before the rename leaves it: the log has the line, the file is the old one.
    writeFileSync(file(), before);
    const at = Date.now() / 1_000 - 1;
    utimesSync(file(), at, at);
    appendFileSync(log(), '{"seq":3,"at":"2026');
    expect((await addRisk("three")).risks).toEqual(["one", "three"]);
    const past = (await manager().history()).map(({ seq, by }) => [seq, by]);
    expect(past).toEqual([1, 2, 3].map((seq) => [seq, "program"]));
  });

  test.each([
    ["half written", '{\n  "schema_version": 2,\n  "tasks": [', 3],
    ["empty", "", 1],
    ["another value", "[1]\n", 1],
    ["with a merge's marks", "{\n<<<<<<< HEAD\n}", 2],
  ])("a file that is %s is an error with its name, the line and the way out", async (_, text, line) => {
    await addRisk("one");
    writeFileSync(file(), text);
    const failed = {
      name: "HoldfastError",
      code: "STORE_CORRUPT",
      message: expect.stringContaining(`${file()}, line ${line}: `),
      hint: expect.stringContaining(log()),
      data: { file: file(), line },
    };
    await expect(manager().load()).rejects.toMatchObject(failed);
    await expect(addRisk("two")).rejects.toMatchObject(failed);
    expect(readFileSync(file(), "utf8")).toBe(text);
  });
});

test("two processes that commit at once lose nothing, and a killed one leaves a whole file", async () => {
  const file = join(folder, "shared.json");
  const program = programFile(new URL("./programs/committer.ts", import.meta.url));
  const start = (name: string, count: number) => {
    const child = spawn(process.execPath, [program, file, name, String(count)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    const items: string[] = [];
    let rest = "";
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      items.push(...lines.filter((line) => line !== "ready"));
    });
    return { child, items, ended: once(child, "close") };
  };
  const writers = [start("a", COMMITS), start("b", COMMITS), start("killed", 10_000)];
  const [a, b, killed] = writers as [(typeof writers)[0], (typeof writers)[0], (typeof writers)[0]];
  await Promise.race([once(killed.child.stdout as NodeJS.ReadableStream, "data"), killed.ended]);
  await a.ended;
  killed.child.kill("SIGKILL");
  await Promise.all([b.ended, killed.ended]);
  const { items } = JSON.parse(readFileSync(file, "utf8")) as { items: string[] };
  for (const item of writers.flatMap((writer) => writer.items)) expect(items).toContain(item);
  expect(items.filter((item) => /^[ab]-/.test(item))).toHaveLength(2 * COMMITS);
  expect(new Set(items).size).toBe(items.length);
});

describe("migrations", () => {
  const old = { schema_version: 1, tasks: [], blockers: ["no keys"] };
  const write = (value: unknown): string => {
    const file = join(folder, "state.json");
    writeFileSync(file, JSON.stringify(value));
    return file;
  };

  test("a dry run touches nothing, a run keeps a backup, a second run does nothing", async () => {
    const file = write(old);
    const dry = await migrateFile(file, { migrations, schema, dryRun: true });
    expect(dry).toMatchObject({ from: 1, to: 2, written: false, backup: null });
    expect(JSON.parse(dry.text)).toEqual({ schema_version: 2, tasks: [], risks: ["no keys"] });
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(old);
    const run = await migrateFile(file, { migrations, schema });
    expect(run).toMatchObject({ written: true, text: dry.text });
    expect(readFileSync(file, "utf8")).toBe(dry.text);
    expect(JSON.parse(readFileSync(run.backup ?? "", "utf8"))).toEqual(old);
    const names = readdirSync(folder).sort();
    expect(await migrateFile(file, { migrations, schema })).toMatchObject({
      from: 2,
      written: false,
      backup: null,
    });
    expect(readdirSync(folder).sort()).toEqual(names);
  });

  test("load migrates an old file in memory and leaves the disk alone until a commit", async () => {
    const file = write(old);
    const manager = StateManager.onFile<Example>(file, spec);
    expect(await manager.load()).toEqual({ schema_version: 2, tasks: [], risks: ["no keys"] });
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(old);
    await manager.update((state) => ({ ...state, risks: [] }));
    await manager.commit();
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ schema_version: 2, tasks: [], risks: [] });
  });

  test.each([
    ["of the future", { ...old, schema_version: 7 }, /it has version 7, this release knows versions up to 2/],
    ["without a version", { tasks: [] }, /schema_version is \(nothing\), which is no version/],
    [
      "with a version that is none",
      { ...old, schema_version: 1.5 },
      /schema_version is 1\.5, which is no version/,
    ],
    ["that does not fit after the step", { schema_version: 1, tasks: [] }, /\$ lacks "risks"|risks/],
  ])("a file %s is refused and left as it is", async (_what, value, message) => {
    const file = write(value);
    await expect(migrateFile(file, { migrations, schema })).rejects.toThrow(message);
    await expect(StateManager.onFile<Example>(file, spec).load()).rejects.toThrow(message);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(value);
    expect(readdirSync(folder)).toEqual(["state.json"]);
  });
});

describe("the generator", () => {
  test("makes schemas, typed managers and a file for migrations that work as generated", async () => {
    const files = generateState({
      name: "billing",
      state: { invoices_sent: "integer", mode: { enum: ["test", "live"] } },
      build: { estimate_hours: "number" },
    });
    expect(Object.keys(files).sort()).toEqual([
      "billing-migrations.ts",
      "billing-state.ts",
      "schemas/billing_board.schema.json",
      "schemas/billing_state.schema.json",
    ]);
    const source = pathToFileURL(fileURLToPath(new URL("../../src/index.ts", import.meta.url))).href;
    const { mkdirSync } = await import("node:fs");
    mkdirSync(join(folder, "schemas"));
    for (const [path, text] of Object.entries(files)) {
      writeFileSync(join(folder, path), text.replace('"holdfast"', JSON.stringify(fileURLToPath(source))));
    }
    const generated = (await import(pathToFileURL(join(folder, "billing-state.ts")).href)) as {
      billingMemory(place: { folder: string }): {
        state: StateManager<Record<string, unknown>>;
        board: StateManager<{ schema_version: number; tasks: Record<string, unknown>[] }>;
      };
    };
    const { state, board } = generated.billingMemory({ folder });
    await state.update((each) => ({ ...each, invoices_sent: 3, mode: "live" }));
    await state.commit();
    expect(JSON.parse(readFileSync(join(folder, "billing_state.json"), "utf8"))).toMatchObject({
      schema_version: 1,
      invoices_sent: 3,
      mode: "live",
      risks: [],
    });
    const task = {
      id: "T-001",
      kind: "build",
      title: "x",
      status: "open",
      acceptance: [],
      estimate_hours: 2,
    };
    await board.update((each) => ({ ...each, tasks: [task] }));
    await board.commit();
    const review = { ...task, kind: "review" };
    await expect(board.update((each) => ({ ...each, tasks: [review] }))).rejects.toThrow(/\$\.tasks\[0\]/);
    await expect(state.update((each) => ({ ...each, mode: "fast" }))).rejects.toThrow(/\$\.mode is "fast"/);
  });

  test("a name that could be a path is refused", () => {
    expect(() => generateState({ name: "../evil" })).toThrow(/cannot name a file or a member/);
    expect(() => generateState({ name: "ok", state: { "a; rm": "string" } })).toThrow(/cannot name/);
  });
});
