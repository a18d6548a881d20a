import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Goal, OpenGoalOptions } from "../../src/goal/index.ts";
import {
  type GoalFolder,
  type ProjectOptions,
  projectGoal,
  type SyncReport,
} from "../../src/projections/index.ts";
import type { StoreSubject } from "../../src/testing/index.ts";
import { Bench } from "../goal/bench.ts";
import { quickFolder } from "../quick-folder.ts";

export const PLAN: OpenGoalOptions = {
  title: "Checkout",
  phases: ["Schema", { name: "API", plans: ["tokens"] }],
  tasks: [
    { title: "users table" },
    { title: "orders table", dependsOn: ["T-001"] },
    { title: "rotate", phase: 2 },
  ],
};

/** A goal and its folder, with the hands of a person in it. */
export class FolderBench {
  readonly bench: Bench;
  readonly root: string;
  readonly goal: Goal;
  readonly reports: SyncReport[] = [];
  folder: GoalFolder;

  private constructor(bench: Bench, root: string, goal: Goal, folder: GoalFolder) {
    this.bench = bench;
    this.root = root;
    this.goal = goal;
    this.folder = folder;
  }

  static async open(
    subject: StoreSubject,
    plan: OpenGoalOptions = PLAN,
    options: ProjectOptions = {},
  ): Promise<FolderBench> {
    const bench = await Bench.open(subject);
    const root = mkdtempSync(join(quickFolder(), "holdfast-folder-"));
    const goal = await bench.goal({ root, ...plan });
    const made: FolderBench[] = [];
    const onEdit = (report: SyncReport): unknown => made[0]?.reports.push(report);
    const folder = await projectGoal(goal, { human: "ann", onEdit, ...options });
    const opened = new FolderBench(bench, root, goal, folder);
    made.push(opened);
    return opened;
  }

  /** `decisions/jwt.md` stands for the first `decisions/jwt-3f9ac1d2.md`, by its number. */
  path(file: string): string {
    const planning = join(this.root, ".planning");
    const [, folder = "", slug = ""] = /^(decisions|blockers)\/([^/]+)\.md$/.exec(file) ?? [];
    if (folder === "" || existsSync(join(planning, file))) return join(planning, file);
    const number = (path: string) => /^id: (.*)$/m.exec(readFileSync(path, "utf8"))?.[1] ?? "";
    const [first] = readdirSync(join(planning, folder))
      .filter((name) => name.startsWith(`${slug}-`) && /^[0-9a-z]{8}\.md$/.test(name.slice(slug.length + 1)))
      .map((name) => join(planning, folder, name))
      .sort((a, b) => number(a).localeCompare(number(b)));
    return first ?? join(planning, file);
  }

  read(file = "STATE.md"): string {
    return readFileSync(this.path(file), "utf8");
  }

  /** A person saves the file; `agoMs` ago. */
  save(file: string, text: string | Uint8Array, agoMs = 60_000): void {
    writeFileSync(this.path(file), text);
    this.age(file, agoMs);
  }

  age(file: string, agoMs: number): void {
    const seconds = (Date.now() - agoMs) / 1_000;
    utimesSync(this.path(file), seconds, seconds);
  }

  /** A person replaces words in the file. */
  edit(file: string, from: string | RegExp, to: string, agoMs?: number): void {
    const text = this.read(file);
    const edited = text.replace(from, to);
    if (edited === text) throw new Error(`${file} does not hold ${String(from)}`);
    this.save(file, edited, agoMs);
  }

  /** All but the files of events. */
  files(): string[] {
    const all = readdirSync(join(this.root, ".planning"), { recursive: true, encoding: "utf8" });
    const rest = all.filter((name) => !name.endsWith(".jsonl") && name !== ".gitattributes");
    return rest.filter((name) => statSync(this.path(name)).isFile()).sort();
  }

  /** Names of backups. */
  beside(): string[] {
    return this.files().filter((name) => name.includes(".unread-"));
  }

  has(file: string): boolean {
    return existsSync(this.path(file));
  }

  async dispose(): Promise<void> {
    await this.folder.close();
    await this.bench.dispose();
    rmSync(this.root, { recursive: true, force: true });
  }
}
