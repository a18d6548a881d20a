import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { goalCore } from "../../src/goal/index.ts";
import { encodeGoal, progressOf } from "../../src/model/goal/index.ts";
import { type ImportReport, importState, renderGoal, resumeGoal } from "../../src/projections/index.ts";
import { Bench } from "../goal/bench.ts";
import { storeSubjects } from "../subjects.ts";

const seed = (name: string): string => fileURLToPath(new URL(`./seed/${name}`, import.meta.url));

/** Every word of the file that says something, quotes and bullets taken off. */
function words(text: string): string[] {
  return text
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .flatMap((line) => {
      const value = line
        .trim()
        .replace(/^- /, "")
        .replace(/^[a-z_]+:\s*/, "");
      const quoted = [...value.matchAll(/"([^"]*)"/g)].map(([, inner]) => inner ?? "");
      return quoted.length > 0 ? quoted : [value];
    })
    .filter((word) => word !== "" && word !== "|" && word !== "[]");
}

describe.each(storeSubjects())("a STATE.md of another tool on $name", (subject) => {
  afterAll(() => subject.dispose());
  const open: { bench: Bench; root: string }[] = [];
  afterEach(async () => {
    for (const { bench, root } of open.splice(0)) {
      await bench.dispose();
      rmSync(root, { recursive: true, force: true });
    }
  });
  const bring = async (file: string, files: Record<string, string> = {}): Promise<ImportReport> => {
    const bench = await Bench.open(subject);
    const root = mkdtempSync(join(tmpdir(), "holdfast-import-"));
    open.push({ bench, root });
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(root, path, ".."), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    return importState(bench, "auth", { file, root });
  };

  test.each(["STATE.md", "STATE-flat.md"])(
    "the worked example (%s) is imported without loss",
    async (name) => {
      const files = {
        "src/api/auth/refresh.ts": "a",
        "src/middleware/auth.ts": "b",
        "db/migrations/002_refresh_tokens.sql": "c",
      };
      const { goal, contradictions, assumed } = await bring(seed(name), files);
      const { state } = goal;
      const text = JSON.stringify(encodeGoal(state));
      const times = /^\d{4}-\d\d-\d\dT/;
      for (const word of words(readFileSync(seed(name), "utf8"))) {
        const wanted = times.test(word) ? String(Date.parse(word)) : JSON.stringify(word).slice(1, -1);
        // "Phase 3: OAuth Integration" names a phase, which has that number and that name.
        const [, number, name] = /^Phase (\d+): (.*)$/.exec(word) ?? [];
        const isPhase = state.phases.some((each) => each.number === Number(number) && each.name === name);
        expect({ word, isThere: isPhase || text.includes(wanted) }).toEqual({ word, isThere: true });
      }
      expect(goal.position()).toMatchObject({
        phase: 2,
        phaseName: "JWT Implementation",
        plan: 3,
        planName: "Refresh Token Rotation",
        taskTitle: "Implement token rotation endpoint",
        wave: 1,
        status: "in_progress",
      });
      expect(goal.progress()).toMatchObject({
        phasesTotal: 4,
        phasesCompleted: 1,
        currentPhaseTasks: 8,
        currentPhaseCompleted: 5,
        percent: 40,
      });
      expect(contradictions).toEqual(["the bar says 50%, the tasks say 40%"]);
      expect(assumed).toContain("phase 4 has no name in the file");
      expect(state.phases.map(({ name: each }) => each)).toEqual([
        "Database Schema",
        "JWT Implementation",
        "OAuth Integration",
        "Phase 4",
      ]);
      expect([...state.decisions.values()].map(({ date, decision }) => [date, decision])).toEqual([
        ["2024-01-14", "httpOnly cookie, not localStorage"],
        ["2024-01-14", "jose over jsonwebtoken"],
        ["2024-01-15", "7 days"],
      ]);
      expect(state.blockers.get("B-001")).toMatchObject({
        status: "active",
        affects: { phases: [3] },
        reportedAt: Date.UTC(2024, 0, 15),
        identifiedAt: Date.UTC(2024, 0, 15),
        workaround: "Proceeding with email/password auth first",
      });
      expect(state.facts.get("imported.blockers.B-001")?.value).toEqual({ id: "block-001" });
      expect(state.history.get("session-001")).toMatchObject({
        status: "ended",
        startedAt: Date.UTC(2024, 0, 14, 9),
        endedAt: Date.UTC(2024, 0, 14, 17),
        completed: ["Phase 1: Database Schema", "Phase 2 Tasks 1-3"],
      });
      expect(state.history.get("session-002")).toMatchObject({
        status: "active",
        workingOn: goal.position().task,
      });
      expect(state.next?.text?.split("\n")).toHaveLength(3);
      expect([...state.files.keys()].sort()).toEqual(Object.keys(files).sort());
      expect((await goal.checkFiles()).isOk).toBe(true);
      expect(renderGoal(state, goal.seq).files.length).toBe(3 + 3 + 1 + 2);
    },
  );

  test.each(["STATE.md", "STATE-flat.md"])(
    "the worked example (%s) resumes where it stopped",
    async (name) => {
      const { goal, contradictions } = await bring(seed(name), {
        "src/api/auth/refresh.ts": "a",
        "src/middleware/auth.ts": "b",
      });
      expect(contradictions).toContain("db/migrations/002_refresh_tokens.sql was modified, but is not there");
      open[0]?.bench.passMs(48 * 3_600_000);
      const { status, review, display } = await resumeGoal(goal);
      expect({ status, review, display }).toEqual({
        status: "review",
        review: ["db/migrations/002_refresh_tokens.sql MISSING"],
        display: [
          "Resuming from Phase 2, Plan 3, Task: Implement token rotation endpoint",
          "Decisions made: D-001 httpOnly cookie, not localStorage; D-002 jose over jsonwebtoken; D-003 7 days",
          "Active blockers: B-001 Waiting for OAuth credentials from client",
        ],
      });
      const { tasks } = await goal.next();
      expect(tasks.map(({ id, title }) => `${id} ${title}`)).toEqual([
        "T-006 Implement token rotation endpoint",
        "T-007 Phase 2, task 7",
        "T-008 Phase 2, task 8",
      ]);
      const { files } = await goal.checkFiles();
      const lines = goal.briefing({ files }).split("\n");
      expect(lines).toContain('NEXT T-006 "Implement token rotation endpoint", build task, in_progress');
      expect(lines).toContain(
        'BLOCKED B-001 "Waiting for OAuth credentials from client", 1 d 9 h ago, pauses phase 3, ' +
          'meanwhile "Proceeding with email/password auth first"',
      );
      expect(lines.filter((line) => /^(?:DRIFT|TAKEN)/.test(line))).toEqual([
        "DRIFT db/migrations/002_refresh_tokens.sql MISSING: look before you rely on it",
      ]);
      const page = renderGoal(goal.state, goal.seq).files.find(({ path }) => path === "STATE.md")?.text ?? "";
      expect(page.slice(page.indexOf("\n# ") + 1)).toBe(readFileSync(seed("STATE-rendered.md"), "utf8"));
      // A sweep puts the task back: it stays the next one.
      await goal.reset({ task: "T-006", why: "no process", by: { name: "s", role: "supervisor" } });
      expect((await goal.next()).tasks[0]?.id).toBe("T-006");
    },
  );

  test("the formats of blockers, sessions and decisions keep their meaning", async () => {
    const { goal, contradictions, kept } = await bring(seed("STATE-records.md"));
    const { state } = goal;
    expect(contradictions).toEqual([]);
    expect(kept).toEqual(["imported.blockers.B-001", "imported.blockers.B-002", "imported.initiative"]);
    expect(
      [...state.tasks.values()].map(({ id, title, phase, description }) => [id, title, phase, description]),
    ).toEqual([
      ["T-001", "Configure production environment", 4, "Imported as task-xyz."],
      ["T-002", "Apply final styles when mockups ready", 1, "Imported as task-abc."],
    ]);
    expect(state.blockers.get("B-001")).toMatchObject({
      status: "active",
      affects: { phases: [4, 5], tasks: ["T-001"], other: [] },
      reportedAt: Date.UTC(2024, 0, 15, 10),
      identifiedAt: Date.UTC(2024, 0, 15, 10),
      workaround: null,
    });
    expect(state.blockers.get("B-002")).toMatchObject({
      status: "bypassed",
      affects: { other: ["UI implementation"] },
      identifiedAt: Date.UTC(2024, 0, 14, 9),
      workaround: "Using placeholder styles, will refine later",
      followUps: ["T-002"],
    });
    expect(state.decisions.get("D-001")).toMatchObject({
      reversible: false,
      alternatives: [
        { option: "Alternative A", whyNot: "rejected because of its price" },
        { option: "Alternative B", whyNot: "rejected because of its age" },
      ],
    });
    expect(state.history.get("session-002")).toMatchObject({
      agent: "worker-def",
      contextUsage: 0.62,
      handoffReason: "Context limit reached",
      issues: ["Context exceeded 50%, quality may have degraded", "Encountered blocker: missing env vars"],
    });
  });

  test("the running task can be taken over", async () => {
    const { goal } = await bring(seed("STATE.md"));
    const { task } = goal.position();
    const claim = await goal.claim(task ?? "", { by: { name: "w", role: "worker" } });
    await claim.submit({ summary: "done" });
    expect(goal.task(task ?? "").status).toBe("submitted");
  });

  test("a frontmatter with sections is imported leniently, and contradictions are reported", async () => {
    const { goal, contradictions, kept } = await bring(seed("other-tool.md"));
    const { state } = goal;
    expect(goal.position()).toMatchObject({ phase: 2, phaseName: "Payments", plan: null });
    expect(state.phases).toHaveLength(4);
    expect(state.phases[1]?.plans).toHaveLength(3);
    expect([...state.tasks.values()].map(({ title, status }) => [title, status])).toEqual([
      ["Create tables", "done"],
      ["Retry failed webhooks", "open"],
    ]);
    expect([...state.decisions.values()].map(({ decision }) => decision)).toEqual([
      "[Phase 1]: Use Postgres",
      "Webhooks are verified by signature",
    ]);
    expect(state.blockers.size).toBe(0);
    expect(state.history.get("last-session")).toMatchObject({
      notes: ["Stopped at: half of the retry queue"],
    });
    const { percent } = progressOf(state);
    expect(contradictions).toEqual([
      `progress.percent is 80, the tasks say ${percent}`,
      `the bar says 50%, the tasks say ${percent}%`,
    ]);
    expect(kept).toEqual(
      expect.arrayContaining([
        "imported.milestone",
        "imported.section.top",
        "imported.section.Performance Metrics",
      ]),
    );
    expect(state.facts.get("imported.section.Current Position")?.value).toContain("wired the webhook");
  });

  test("a page that we rendered is imported as it shows the goal", async () => {
    const { goal } = await bring(seed("STATE.md"));
    const page = renderGoal(goal.state, goal.seq).files.find(({ path }) => path === "STATE.md");
    const file = join(open[0]?.root ?? "", "STATE.md");
    writeFileSync(file, page?.text ?? "");
    const again = await bring(file);
    expect(again.contradictions).toEqual([]);
    expect(again.goal.state.title).toBe("User Authentication");
    expect(again.goal.position()).toMatchObject({ phase: 2, taskTitle: "Implement token rotation endpoint" });
    expect(again.goal.progress()).toMatchObject({ phasesCompleted: 1, currentPhaseTasks: 8, percent: 40 });
  });

  test("a goal with work in it refuses an import", async () => {
    const { goal } = await bring(seed("STATE.md"));
    const { seq } = goal;
    await expect(importState(goalCore(goal), "auth", { file: seed("STATE.md") })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      data: { reason: "IMPORT_NOT_EMPTY" },
    });
    expect((await goal.refresh()).seq).toBe(seq);
  });
});
