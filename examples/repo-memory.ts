/**
 * A goal in the repository: files that people read, review and edit, and state that is checked before it is
 * trusted. A person's edit becomes part of the goal. Agents wait while a person is editing.
 */

import { mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  generateState,
  importState,
  isHoldfastError,
  migrateFile,
  open,
  projectGoal,
  resumeGoal,
  StateManager,
} from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const root = temporaryFolder();
const holdfast = await open(join(root, "store.db"));
const agent = { name: "claude-7f2", role: "orchestrator" } as const;
const goal = await holdfast.goal("checkout", {
  statement: "Ship the checkout",
  phases: [{ name: "API", plans: ["tokens"] }],
  tasks: [{ title: "token rotation", plan: 1 }, { title: "write docs" }],
  root,
  by: agent,
});

// ── Files that follow the goal ─────────────────────────────────────────────────────────────────────────────
const folder = await projectGoal(goal, { folder: ".planning", human: "ann" });
await goal.decide({ type: "technology", context: "JWT library", decision: "jose", reason: "typed" });
const page = join(folder.path, "STATE.md");
const shown = readFileSync(page, "utf8").split("\n");
console.log(shown.find((line) => line.startsWith("- D-001"))?.replace(/\(.*?, /, "("));

// ── A person edits STATE.md ────────────────────────────────────────────────────────────────────────────────
const save = (text: string, agoMs: number): void => {
  writeFileSync(page, text);
  utimesSync(page, (Date.now() - agoMs) / 1_000, (Date.now() - agoMs) / 1_000);
};
save(readFileSync(page, "utf8").replace("- [ ] T-002", "- [x] T-002"), 0);
try {
  await goal.setNext({ next: "T-001" });
} catch (error) {
  if (isHoldfastError(error, "HUMAN_EDITING")) console.log(`the agent waits: ${error.message}`);
}
save(readFileSync(page, "utf8"), 60_000);
const { edits } = await folder.sync();
console.log(`ann: ${edits[0]?.taken.join(", ")}; T-002 is ${goal.task("T-002").status}`);
await folder.close();

// ── Resume: check before trusting ──────────────────────────────────────────────────────────────────────────
mkdirSync(join(root, "src"));
writeFileSync(join(root, "src", "auth.ts"), "v1");
await goal.recordFiles({ files: [{ path: "src/auth.ts", act: "modified" }] });
writeFileSync(join(folder.path, "1-1-PLAN.md"), "rotate on every use");
const resumed = await resumeGoal(goal);
console.log(`${resumed.status}: ${resumed.display[0]}; plan: ${resumed.plan?.text}`);
writeFileSync(join(root, "src", "auth.ts"), "v2");
const stopped = await resumeGoal(goal);
console.log(`${stopped.status}: ${stopped.review.join(", ")}`);

// ── A STATE.md that another tool has kept so far ───────────────────────────────────────────────────────────
const other = join(root, "OLD-STATE.md");
writeFileSync(
  other,
  "title: Search\nposition:\n  phase: 1\n  task: index pages\nprogress:\n  bar: '██░░ 50%'\n",
);
const imported = await importState(holdfast, "search", { file: other });
console.log(`imported: ${imported.goal.position().taskTitle}; ${imported.contradictions.join(", ")}`);

// ── State under a schema of one's own ──────────────────────────────────────────────────────────────────────
const schema = {
  type: "object",
  required: ["schema_version", "risks"],
  properties: { schema_version: { const: 2 }, risks: { type: "array", items: { type: "string" } } },
};
const migrations = {
  current: 2,
  steps: { 1: ({ blockers, ...rest }: Record<string, unknown>) => ({ ...rest, risks: blockers }) },
};
const file = join(root, "agent_state.json");
writeFileSync(file, '{ "schema_version": 1, "blockers": ["no keys"] }');
const migrated = await migrateFile(file, { schema, migrations });
console.log(`version ${migrated.from} became ${migrated.to}: ${JSON.stringify(JSON.parse(migrated.text))}`);

interface State {
  schema_version: number;
  risks: string[];
}
const initial: State = { schema_version: 2, risks: [] };
const onFile = StateManager.onFile<State>(file, { schema, migrations });
const inStore = StateManager.onStore<State>(holdfast, "agent_state", { schema, migrations, initial });
for (const manager of [onFile, inStore]) {
  await manager.load();
  await manager.update((state) => ({ ...state, risks: [...state.risks, "late"] }));
  console.log(`committed: ${(await manager.commit()).risks.join(", ")}`);
}
for (const { by, state } of await onFile.history()) console.log(`${by}: ${state?.risks?.join(", ")}`);
try {
  await onFile.update((state) => ({ ...state, risks: null as never }));
} catch (error) {
  if (isHoldfastError(error)) console.log(`refused: ${error.message.slice(root.length + 1)}`);
}
console.log(Object.keys(generateState({ name: "billing", state: { invoices: "integer" } })).join(" "));

await holdfast.close();
