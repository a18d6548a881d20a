import { execFileSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, vi } from "vitest";
import { projectGoal, readSeal, type SyncReport } from "../../src/projections/index.ts";
import { orchestrator, verifier, worker } from "../goal/bench.ts";
import { storeSubjects } from "../subjects.ts";
import { FolderBench } from "./folder-bench.ts";
import { testsInTurn } from "./in-turn.ts";

const ANN = { name: "ann", role: "human" };

describe.each(storeSubjects())("a person edits the files of a goal on $name", (subject) => {
  const inTurn = testsInTurn(subject);
  afterAll(() => subject.dispose());
  let bench: FolderBench;
  beforeEach(async () => {
    bench = await FolderBench.open(subject);
  });
  afterEach(async () => {
    vi.useRealTimers();
    await bench.dispose();
  });

  const taken = async (): Promise<string[]> => {
    const { edits } = await bench.folder.sync();
    return edits.flatMap((edit) => [...edit.taken, ...edit.left.map((line) => `LEFT ${line}`)]);
  };

  inTurn("STATE.md: everything it offers becomes events by a human, in one commit", async () => {
    await bench.goal.block({ description: "no keys", affects: ["T-003"] });
    const question = await bench.goal.ask({ text: "Which bank?" });
    const commits = await bench.bench.commits(bench.goal);
    bench.edit("STATE.md", "# Checkout", "# Checkout 2");
    bench.edit("STATE.md", "> Ship the checkout", "> Ship it all");
    bench.edit("STATE.md", "## Next Action\n", "## Next Action\n\nT-002 — after lunch\n");
    bench.edit("STATE.md", "- [ ] T-001 [open] users table", "- [x] T-001 [open] users table");
    bench.edit("STATE.md", "T-002 [open] orders table", "T-002 [open] orders\n- [ ] write docs");
    bench.edit(
      "STATE.md",
      "## Decisions\n",
      "## Decisions\n\n- (constraint) Limits: 100 calls a minute because the bank says so\n",
    );
    bench.edit("STATE.md", /- B-001.*\n/, "- a new one (affects: phase 2)\n");
    bench.edit("STATE.md", "Which bank?", "Which bank? => the second\n- And which card?");
    expect(await taken()).toEqual([
      "title: Checkout 2",
      "statement: Ship it all",
      "next action: T-002 — after lunch",
      "T-001 done",
      "T-002: orders",
      "new task: write docs",
      "new decision: (constraint) Limits: 100 calls a minute because the bank says so",
      "new blocker: a new one (affects: phase 2)",
      "B-001 resolved",
      "Q-001 answered: the second",
      "new question: And which card?",
    ]);
    const { state } = bench.goal;
    expect(state).toMatchObject({ title: "Checkout 2", statement: "Ship it all" });
    expect(state.next).toMatchObject({ task: "T-002", text: "after lunch", by: ANN });
    expect(state.tasks.get("T-001")).toMatchObject({ status: "done", submission: { by: ANN } });
    expect(state.tasks.get("T-002")?.title).toBe("orders");
    expect(state.tasks.get("T-004")?.title).toBe("write docs");
    expect(state.decisions.get("D-001")).toMatchObject({
      type: "constraint",
      context: "Limits",
      decision: "100 calls a minute",
      reason: "the bank says so",
      by: ANN,
    });
    expect(state.blockers.get("B-001")?.status).toBe("resolved");
    expect(state.blockers.get("B-002")?.affects.phases).toEqual([2]);
    expect(state.questions.get(question)?.answer).toBe("the second");
    expect(await bench.bench.commits(bench.goal)).toBe(commits + 1);
    expect(readSeal(bench.read()).isIntact).toBe(true);
    expect(bench.beside()).toEqual([]);
    expect(await taken()).toEqual([]);
  });

  inTurn(
    "an edit that was saved as one line is applied by a process that has not seen the file",
    async () => {
      const board = JSON.parse(bench.read("task_board.json"));
      board.tasks[0].title = "all tables";
      bench.save("task_board.json", JSON.stringify(board));
      await bench.folder.close();
      const seen: string[] = [];
      const onEdit = ({ edits }: SyncReport) => void seen.push(...edits.flatMap((edit) => edit.taken));
      await (await projectGoal(bench.goal, { human: "ann", onEdit })).close();
      expect(seen).toEqual(["T-001: title"]);
    },
  );

  inTurn("task_board.json and agent_state.json: fields, tasks, phases, facts, answers", async () => {
    await bench.goal.fact({ key: "db", value: "mysql", source: "guess" });
    const board = JSON.parse(bench.read("task_board.json"));
    board.tasks[0].title = "all tables";
    board.tasks[1].status = "dropped";
    board.tasks[2].phase = 1;
    board.phases.push({ number: 3, name: "Ship", plans: [{ number: 1, name: "rollout" }] });
    board.tasks.push({ ...board.tasks[0], id: "T-099", title: "new one", phase: 1, depends_on: ["T-001"] });
    bench.save("task_board.json", JSON.stringify(board));
    const state = JSON.parse(bench.read("agent_state.json"));
    state.confirmed_facts.db = { value: "postgres", source: "ops" };
    state.confirmed_facts.new = { value: [1], source: "ops" };
    state.settings.verification = "self";
    bench.save("agent_state.json", JSON.stringify(state, null, 4));
    expect((await taken()).sort()).toEqual(
      [
        "new phase: Ship",
        "T-001: title",
        "T-002 dropped",
        "T-003: phase and plan",
        "new task T-099: new one",
        "settings.verification: self",
        "fact db",
        "fact new",
      ].sort(),
    );
    const now = bench.goal.state;
    expect(now.tasks.get("T-001")?.title).toBe("all tables");
    expect(now.tasks.get("T-002")?.status).toBe("dropped");
    expect(now.tasks.get("T-003")?.phase).toBe(1);
    expect(now.tasks.get("T-004")).toMatchObject({ title: "new one", dependsOn: ["T-001"] });
    expect(now.phases[2]).toMatchObject({ name: "Ship", plans: [{ name: "rollout" }] });
    expect(now.facts.get("db")).toMatchObject({ value: "postgres", source: "ops", by: ANN });
    expect(now.verification).toBe("self");
  });

  inTurn("records: a decision is superseded, a blocker resolved, a session gets a note", async () => {
    await bench.goal.decide({
      type: "technology",
      context: "JWT library",
      decision: "jose",
      reason: "typed",
    });
    await bench.goal.block({ description: "no keys", affects: ["T-003"] });
    await bench.goal.startSession({ session: "mon" });
    bench.edit("decisions/jwt-library.md", "jose", "paseto");
    bench.edit("blockers/no-keys.md", "status: active", "status: resolved");
    bench.save("blockers/no-keys.md", `${bench.read("blockers/no-keys.md")}\n## Resolution\n\nthey came\n`);
    bench.save("sessions/mon.md", `${bench.read("sessions/mon.md")}\n## Note 1\n\nslow disk\n`);
    expect(await taken()).toEqual([
      "D-001 superseded by what was written into its file",
      "B-001 resolved",
      "mon: Note 1",
    ]);
    const { state } = bench.goal;
    expect(state.decisions.get("D-001")).toMatchObject({ decision: "jose", supersededBy: "D-002" });
    expect(state.decisions.get("D-002")).toMatchObject({ decision: "paseto", supersedes: "D-001", by: ANN });
    expect(state.blockers.get("B-001")).toMatchObject({ status: "resolved", resolution: "they came" });
    expect(state.history.get("mon")?.notes).toEqual(["slow disk"]);
    expect(bench.read("decisions/jwt-library.md")).toContain("superseded_by: D-002");
  });

  inTurn(
    "three ways: what an agent did meanwhile stays, and what both changed becomes what the person wrote",
    async () => {
      const base = bench.read();
      await bench.goal.editTask({ task: "T-001", change: { title: "users and roles" } });
      await bench.goal.setNext({ next: "agent's plan" });
      await bench.goal.addTask({ title: "agent's task", phase: 1 });
      bench.save("STATE.md", base.replace("## Next Action\n", "## Next Action\n\nann's plan\n"));
      const [edit] = (await bench.folder.sync()).edits;
      expect(edit).toMatchObject({
        taken: ["next action: ann's plan"],
        conflicts: ["next action: ann's plan"],
        left: [],
      });
      expect(bench.goal.state.next?.text).toBe("ann's plan");
      expect(bench.goal.state.tasks.get("T-001")?.title).toBe("users and roles");
      expect(bench.read()).toContain("agent's task");
    },
  );

  inTurn("a person who saves again from an old buffer adds nothing twice", async () => {
    const buffer = bench.read().replace("## Tasks\n", "## Tasks\n\n- [ ] write docs\n");
    bench.save("STATE.md", buffer);
    expect(await taken()).toEqual(["new task: write docs"]);
    bench.save("STATE.md", buffer);
    expect(await taken()).toEqual([]);
    bench.save("STATE.md", buffer.replace("## Decisions\n", "## Decisions\n\n- keep it small\n"));
    expect(await taken()).toEqual(["new decision: keep it small"]);
    const titles = [...bench.goal.state.tasks.values()].map(({ title }) => title);
    expect(titles.filter((title) => title === "write docs")).toHaveLength(1);
  });

  inTurn("a crash after the commit of an edit renders again and adds nothing", async () => {
    bench.edit("STATE.md", "## Decisions\n", "## Decisions\n\n- keep it small\n");
    const edited = bench.read();
    await bench.folder.sync();
    const { seq } = bench.goal;
    // The process died between the commit and the rename.
    bench.save("STATE.md", edited);
    expect((await bench.folder.sync()).edits).toEqual([]);
    expect(bench.goal.seq).toBe(seq);
    expect(readSeal(bench.read()).isIntact).toBe(true);
  });

  inTurn("a file of an older version is migrated", async () => {
    await bench.goal.fact({ key: "db", value: "mysql", source: "guess" });
    const old = bench
      .read("agent_state.json")
      .replace('"schema_version": 2', '"schema_version": 1')
      .replace('"risks"', '"blockers"')
      .replace("mysql", "postgres");
    bench.save("agent_state.json", old);
    expect(await taken()).toEqual(["fact db"]);
    expect(bench.goal.state.facts.get("db")?.value).toBe("postgres");
    expect(JSON.parse(bench.read("agent_state.json"))).toMatchObject({ schema_version: 2, risks: [] });
  });

  inTurn("moved lines of the seal are an edit, and are put back", async () => {
    await bench.goal.fact({ key: "db", value: "postgres", source: "compose" });
    const page = bench.read("STATE.md");
    const moved = page.replace(/(revision: .*\n)(digest: .*\n)/, "$2$1");
    expect(moved).not.toBe(page);
    bench.save("STATE.md", moved);
    await bench.folder.sync();
    expect(bench.read("STATE.md")).toBe(page);
  });

  inTurn("text in a computed section is reported and backed up", async () => {
    await bench.goal.decide({
      type: "technology",
      context: "JWT library",
      decision: "jose",
      reason: "typed",
    });
    bench.edit("STATE.md", "status: active", "status: done");
    bench.edit("STATE.md", "> Ship", "a line of mine\n\n> Ship");
    bench.edit("decisions/jwt-library.md", "# D-001", "# Renamed");
    expect(await taken()).toEqual([
      "LEFT D-001: section top",
      'LEFT section "frontmatter" cannot be changed here',
      'LEFT section "top" cannot be changed here',
    ]);
    expect(bench.beside()).toHaveLength(2);
  });

  inTurn(
    "what cannot be taken in is kept beside and reported, and the rest is taken in all the same",
    async () => {
      bench.edit("STATE.md", "## Progress\n\n", "## Progress\n\n100% done!\n");
      bench.edit("STATE.md", "## Sessions", "## My Notes\n\ncall Bob\n\n## Sessions");
      bench.edit("STATE.md", "## Next Action\n", "## Next Action\n\ncall Bob\n");
      const edited = bench.read();
      const { edits } = await bench.folder.sync();
      expect(edits).toMatchObject([
        {
          file: "STATE.md",
          taken: ["next action: call Bob"],
          left: ['section "Progress" cannot be changed here', 'section "My Notes" cannot be changed here'],
        },
      ]);
      expect(bench.beside()).toEqual([edits[0]?.beside]);
      expect(bench.read(edits[0]?.beside ?? "")).toBe(edited);
      expect(bench.goal.state.next?.text).toBe("call Bob");
    },
  );

  inTurn(
    "an agent is refused for five seconds after an edit, then decides on what the person wrote",
    async () => {
      // The wall clock stands still, so that a busy machine does not matter.
      vi.useFakeTimers({ toFake: ["Date"] });
      bench.edit("STATE.md", "## Next Action\n", "## Next Action\n\nstop\n", 1_000);
      const write = () => bench.goal.fact({ key: "k", value: 1, source: "x", by: worker });
      await expect(write()).rejects.toMatchObject({
        code: "HUMAN_EDITING",
        retryable: true,
        message: "goal checkout: a person edited STATE.md a moment ago",
        data: { file: "STATE.md" },
        hint: expect.stringMatching(/Wait 4 s, then read the goal again/),
      });
      await expect(bench.goal.claim("T-001", { by: worker })).rejects.toMatchObject({
        code: "HUMAN_EDITING",
      });
      expect(bench.goal.state.facts.has("k")).toBe(false);
      expect(bench.read()).toContain("\nstop\n");
      bench.age("STATE.md", 6_000);
      // The log has the time of the edit, so agents of other processes wait as well.
      await expect(write()).rejects.toMatchObject({ code: "HUMAN_EDITING" });
      expect(bench.goal.state.next?.text).toBe("stop");
      bench.bench.passMs(5_001);
      await write();
      expect(bench.goal.state.facts.has("k")).toBe(true);
    },
  );

  inTurn("people are never refused, and `quietMs: 0` switches the wait off", async () => {
    bench.edit("STATE.md", "## Next Action\n", "## Next Action\n\nstop\n", 0);
    await bench.goal.fact({ key: "k", value: 1, source: "x" });
    expect(bench.goal.state.next?.text).toBe("stop");
    await bench.folder.close();
    bench.folder = await projectGoal(bench.goal, { quietMs: 0, human: "ann" });
    bench.edit("STATE.md", "stop", "go", 0);
    await bench.goal.fact({ key: "k", value: 2, source: "x", by: worker });
    expect(bench.goal.state.next?.text).toBe("go");
  });

  inTurn("a person ticks off a claimed task: the agent loses its claim", async () => {
    const claim = await bench.goal.claim("T-001", { by: worker });
    bench.edit("STATE.md", "- [ ] T-001", "- [x] T-001");
    expect(await taken()).toEqual(["T-001 done"]);
    bench.bench.passMs(6_000);
    await expect(claim.submit({ summary: "late" })).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(bench.goal.task("T-001")).toMatchObject({ status: "done" });
  });

  inTurn("a change that the goal refuses is reported with the reason", async () => {
    await bench.goal.claim("T-001", { by: worker });
    const board = JSON.parse(bench.read("task_board.json"));
    board.tasks[0].status = "submitted";
    board.tasks[1].depends_on = ["T-002"];
    bench.save("task_board.json", JSON.stringify(board));
    expect(await taken()).toEqual([
      "LEFT T-001: in_progress cannot become submitted by hand",
      "LEFT T-002: depends_on: task T-002 would wait for itself",
    ]);
    expect(bench.beside()).toHaveLength(1);
  });

  inTurn("agents also wait after an edit that another process applied", async () => {
    const journal = await bench.bench.another();
    const goal = await bench.bench.goal({ root: bench.root, by: orchestrator }, journal);
    const folder = await projectGoal(goal, { human: "ann" });
    bench.edit("STATE.md", "## Next Action\n", "## Next Action\n\nstop\n", 0);
    await folder.sync();
    await bench.goal.refresh();
    await expect(bench.goal.setNext({ next: "go", by: worker })).rejects.toMatchObject({
      code: "HUMAN_EDITING",
    });
    await folder.close();
  });

  describe("in a git repository", () => {
    const git = (...args: string[]): string =>
      execFileSync("git", ["-c", "user.name=ann", "-c", "user.email=ann@example.com", ...args], {
        cwd: bench.root,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      });

    inTurn("a checkout is no edit: old renderings are replaced, no agent waits", async () => {
      git("init", "-q", "-b", "main");
      git("add", ".planning");
      git("commit", "-qm", "first");
      await bench.goal.addTask({ title: "later" });
      git("checkout", "-q", "-b", "side");
      git("commit", "-qam", "second");
      git("checkout", "-q", "main");
      expect(bench.read()).not.toContain("later");
      await bench.goal.fact({ key: "k", value: 1, source: "x", by: worker });
      expect(bench.read()).toContain("later");
      expect(bench.reports).toEqual([]);
    });

    inTurn("a hand-edited record from a checkout is backed up, not applied", async () => {
      await bench.goal.decide({ type: "technology", context: "a", decision: "b", reason: "c", by: verifier });
      git("init", "-q", "-b", "main");
      git("add", ".planning");
      git("commit", "-qm", "first");
      git("checkout", "-q", "-b", "side");
      const file = bench.files().find((name) => name.startsWith("decisions/")) ?? "";
      writeFileSync(bench.path(file), `${bench.read(file)}\nmore\n`);
      git("commit", "-qam", "edited");
      git("checkout", "-q", "main");
      await bench.folder.sync();
      git("checkout", "-q", "side");
      await bench.goal.fact({ key: "k", value: 1, source: "x", by: worker });
      expect(bench.goal.state.decisions.size).toBe(1);
      expect(bench.reports.flatMap(({ edits }) => edits)).toMatchObject([
        { from: "git", left: ["git brought it"] },
      ]);
      expect(bench.beside()).toHaveLength(1);
    });

    const LINE = "- [ ] T-001 [open] users table";
    const sides = (theirs: string): string =>
      bench.read().replace(LINE, `<<<<<<< HEAD\n${LINE}\n=======\n${theirs}\n>>>>>>> side`);

    inTurn("both sides of a conflict are rebuilt from the log", async () => {
      const text = bench.read();
      bench.save("STATE.md", sides("- [x] T-001 [done] users table"), 0);
      const { edits } = await bench.folder.sync();
      expect(edits).toMatchObject([{ from: "conflict", left: [], beside: null }]);
      expect(bench.read()).toBe(text);
    });

    const written: [what: string, theirs: string][] = [
      ["a tick", "- [x] T-001 [open] users table"],
      ["a title", "- [ ] T-001 [open] users and groups"],
      ["a paragraph", `${LINE}\n\nMind the budget.`],
    ];
    for (const [what, theirs] of written) {
      inTurn(`text between the sides of a conflict is backed up: ${what}`, async () => {
        const text = bench.read();
        const found = sides(theirs);
        bench.save("STATE.md", found, 0);
        const { edits } = await bench.folder.sync();
        expect(edits).toMatchObject([
          { from: "conflict", left: [expect.stringContaining("in no rendering")] },
        ]);
        expect(bench.read()).toBe(text);
        expect(bench.beside().map((name) => bench.read(name))).toEqual([found]);
      });
    }
  });

  inTurn("many files that change at once are backed up, not applied", async () => {
    await bench.goal.decide({ type: "technology", context: "a", decision: "b", reason: "c", by: verifier });
    await bench.goal.decide({ type: "technology", context: "d", decision: "e", reason: "f", by: verifier });
    for (const file of bench.files()) bench.save(file, `${bench.read(file)}\n `, 10_000);
    const { edits } = await bench.folder.sync();
    expect(edits.map(({ from }) => from)).toEqual(["git", "git", "git", "git", "git"]);
    expect(bench.beside()).toHaveLength(5);
  });

  inTurn("an editor that saves by renaming is noticed like one that writes in place", async () => {
    const path = join(bench.root, "draft.md");
    writeFileSync(path, bench.read().replace("# Checkout", "# Renamed"));
    renameSync(path, bench.path("STATE.md"));
    expect(await taken()).toEqual(["title: Renamed"]);
  });
});
