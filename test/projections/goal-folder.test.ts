import { chmodSync, mkdirSync, rmSync, statSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect } from "vitest";
import { loadGoal } from "../../src/goal/index.ts";
import { projectGoal, readSeal, renderGoal } from "../../src/projections/index.ts";
import { human, worker } from "../goal/bench.ts";
import { storeSubjects } from "../subjects.ts";
import { FolderBench, PLAN } from "./folder-bench.ts";
import { testsInTurn } from "./in-turn.ts";

describe.each(storeSubjects())("the folder of a goal on $name", (subject) => {
  const inTurn = testsInTurn(subject);
  afterAll(() => subject.dispose());
  const open: FolderBench[] = [];
  const begin = async (
    ...args: Parameters<typeof FolderBench.open> extends [unknown, ...infer Rest] ? Rest : never
  ) => {
    const bench = await FolderBench.open(subject, ...args);
    open.push(bench);
    return bench;
  };
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.dispose();
  });

  inTurn("follows every write, and can be deleted and rebuilt byte for byte", async () => {
    const bench = await begin();
    await bench.goal.decide({
      type: "technology",
      context: "JWT library",
      decision: "jose",
      reason: "typed",
    });
    await bench.goal.block({ description: "no keys", affects: ["T-001"] });
    await bench.goal.startSession({ session: "mon" });
    expect(bench.files()).toEqual([
      "STATE.md",
      "agent_state.json",
      expect.stringMatching(/^blockers\/no-keys-[0-9a-f]{8}\.md$/),
      expect.stringMatching(/^decisions\/jwt-library-[0-9a-f]{8}\.md$/),
      "sessions/mon.md",
      "task_board.json",
    ]);
    const before = bench.files().map((file) => [file, bench.read(file)]);
    rmSync(join(bench.root, ".planning"), { recursive: true });
    const again = await projectGoal(bench.goal, { auto: false });
    expect(bench.files().map((file) => [file, bench.read(file)])).toEqual(before);
    expect((await again.sync()).written).toEqual([]);
    const { state, seq } = await loadGoal(bench.bench.journal, "checkout");
    for (const { path, text } of renderGoal(state, seq).files) expect(bench.read(path)).toBe(text);
  });

  inTurn("writes only the files that changed", async () => {
    const bench = await begin(PLAN, { auto: false });
    await bench.goal.decide({ type: "technology", context: "a", decision: "b", reason: "c" });
    expect((await bench.folder.sync()).written).toEqual([
      expect.stringMatching(/^decisions\/a-[0-9a-f]{8}\.md$/),
      "agent_state.json",
      "STATE.md",
    ]);
    await bench.goal.fact({ key: "db", value: 1, source: "x" });
    expect((await bench.folder.sync()).written).toEqual(["agent_state.json", "STATE.md"]);
    await bench.goal.claim("T-001", { by: worker });
    expect((await bench.folder.sync()).written).toEqual(["task_board.json", "agent_state.json", "STATE.md"]);
    expect((await bench.folder.sync()).written).toEqual([]);
  });

  inTurn("a deleted file comes back, and an older rendering that git brought back is no edit", async () => {
    const bench = await begin();
    const old = bench.read();
    await bench.goal.fact({ key: "db", value: 1, source: "x" });
    const now = bench.read();
    unlinkSync(bench.path("agent_state.json"));
    bench.save("STATE.md", old, 0);
    await bench.goal.fact({ key: "db", value: 1, source: "x", by: worker });
    expect(readSeal(bench.read()).revision).toBe(bench.goal.seq);
    expect(bench.has("agent_state.json")).toBe(true);
    expect(now).not.toBe(bench.read());
    expect(bench.reports).toEqual([]);
    expect(bench.beside()).toEqual([]);
  });

  inTurn("line endings that git or an editor changed are no edit", async () => {
    const bench = await begin();
    bench.save("STATE.md", bench.read().replaceAll("\n", "\r\n"), 0);
    expect((await bench.folder.sync()).edits).toEqual([]);
  });

  inTurn("never goes back a revision: a file that is ahead of the store is left alone", async () => {
    const bench = await begin();
    const later = renderGoal(bench.goal.state, bench.goal.seq + 5).files.find(
      ({ path }) => path === "STATE.md",
    );
    bench.save("STATE.md", later?.text ?? "");
    const report = await bench.folder.sync();
    expect(report.ahead).toEqual(["STATE.md"]);
    expect(bench.read()).toBe(later?.text);
  });

  inTurn("a crash between rename and record looks like no edit to the next process", async () => {
    const bench = await begin();
    await bench.folder.close();
    const other = await bench.bench.another();
    const goal = await bench.bench.goal({ root: bench.root }, other);
    // The files of a process that died before it could note that it wrote them.
    for (const { path, text } of renderGoal(bench.goal.state, bench.goal.seq).files)
      bench.save(path, text, 0);
    const folder = await projectGoal(goal, { auto: false });
    const report = await folder.sync();
    expect(report).toMatchObject({ edits: [], written: [] });
  });

  inTurn("removes the temporary files of a killed writer, and nothing else", async () => {
    const bench = await begin();
    await bench.folder.close();
    writeFileSync(bench.path(".holdfast-0123456789ab.tmp"), "half a fi");
    writeFileSync(bench.path("notes.txt"), "mine");
    await projectGoal(bench.goal, { auto: false });
    expect(bench.has(".holdfast-0123456789ab.tmp")).toBe(false);
    expect(bench.read("notes.txt")).toBe("mine");
  });

  inTurn("a folder of another goal, and links inside the folder, are refused", async () => {
    const bench = await begin();
    const other = await bench.bench.journal;
    const { openGoal } = await import("../../src/goal/index.ts");
    const goal = await openGoal(other, "billing", { statement: "Bill", by: human, root: bench.root });
    await expect(projectGoal(goal)).rejects.toMatchObject({
      code: "FOLDER_TAKEN",
      data: { other: "checkout" },
    });
    mkdirSync(join(bench.root, "elsewhere"));
    mkdirSync(join(bench.root, "linked"));
    symlinkSync(join(bench.root, "elsewhere"), join(bench.root, "linked", "decisions"));
    await expect(projectGoal(goal, { folder: "linked" })).rejects.toMatchObject({
      code: "FOLDER_UNSAFE",
    });
  });

  inTurn("a sync waits for another process, and throws when that takes too long", async () => {
    const bench = await begin(PLAN, { auto: false, waitMs: 30 });
    const held: { release(): Promise<void> }[] = [];
    const { rows } = await bench.bench.journal.list<"leases">({
      of: "leases",
      prefix: "render/",
      limit: 1,
    });
    const other = await bench.bench.another();
    const lease = await other.leases.take(rows[0]?.name ?? "", "somebody", { label: "web-3", waitMs: 0 });
    if ("release" in lease) held.push(lease);
    await bench.goal.fact({ key: "k", value: 1, source: "x" });
    await expect(bench.folder.sync()).rejects.toMatchObject({
      code: "FOLDER_BUSY",
      retryable: true,
      message: expect.stringMatching(/web-3 has been rendering .* for over 30 ms/),
    });
    for (const each of held) await each.release();
    expect((await bench.folder.sync()).written).toContain("STATE.md");
  });

  inTurn(
    "another layout of the same JSON says nothing: it is undone, and the log stays as it was",
    async () => {
      const bench = await begin();
      const { seq } = bench.goal;
      bench.save("task_board.json", JSON.stringify(JSON.parse(bench.read("task_board.json"))));
      const report = await bench.folder.sync();
      expect(report).toMatchObject({ written: ["task_board.json"], edits: [{ taken: [], left: [] }] });
      expect(bench.goal.seq).toBe(seq);
      expect(bench.beside()).toEqual([]);
    },
  );

  inTurn("a write that cannot be rendered is durable, with a warning", async () => {
    const warned: unknown[] = [];
    const bench = await begin();
    Object.assign(bench.bench.journal, { warn: (error: unknown) => warned.push(error) });
    rmSync(join(bench.root, ".planning"), { recursive: true });
    writeFileSync(join(bench.root, ".planning"), "in the way");
    await bench.goal.fact({ key: "db", value: 1, source: "x" });
    expect((await loadGoal(bench.bench.journal, "checkout")).state.facts.has("db")).toBe(true);
    expect(warned).toHaveLength(1);
  });

  inTurn("files are world-readable, and replaced instead of written in place", async () => {
    const bench = await begin();
    const before = statSync(bench.path("STATE.md"));
    chmodSync(bench.path("STATE.md"), 0o444);
    await bench.goal.fact({ key: "db", value: 1, source: "x" });
    const after = statSync(bench.path("STATE.md"));
    expect(after.ino).not.toBe(before.ino);
    expect(after.mode & 0o444).toBe(0o444);
  });

  inTurn("STATE.md stays on one page and the files stay few for a long goal", async () => {
    const tasks = Array.from({ length: 200 }, (_, index) => ({ title: `task ${index} ${"x".repeat(400)}` }));
    const bench = await begin({ ...PLAN, tasks }, { auto: false });
    for (let index = 0; index < 40; index++) {
      const text = `${index} ${"words ".repeat(60)}`;
      await bench.goal.decide({ type: "constraint", context: text, decision: text, reason: text });
      await bench.goal.ask({ text });
      await bench.goal.block({ description: text, affects: { phases: [2] } });
      await bench.goal.addPhase({ name: `phase ${index}` });
      await bench.goal.startSession({ session: `s-${index}` });
    }
    await bench.folder.sync();
    const page = bench.read();
    expect(page.split("\n").length).toBeLessThan(150);
    expect(page.length).toBeLessThan(20_000);
    expect(page).toContain("- … 185 more in task_board.json");
  });
});
