/**
 * A goal outlives its sessions: phases, tasks, decisions, blockers, facts, files, and the next action. Many
 * agents may write to it at once. The next agent reads a briefing of the goal, not a transcript.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { open } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const root = temporaryFolder();
const holdfast = await open(join(root, "store.db"));
const ann = { name: "ann", role: "human" } as const;
const goal = await holdfast.goal("checkout", {
  statement: "Ship the checkout",
  phases: ["Schema"],
  root,
  by: ann,
});
let hints = 0;
const unwatch = goal.watch(() => hints++);

// ── Planning ───────────────────────────────────────────────────────────────────────────────────────────────
await goal.describe({ title: "Checkout" });
await goal.addPhase({ name: "API" });
await goal.addPlan({ phase: "API", name: "tokens" });
await goal.addTasks({ tasks: [{ title: "users table" }, { title: "orders table", dependsOn: ["T-001"] }] });
const rotate = await goal.addTask({ title: "token rotation", phase: "API" });
await goal.editTask({ task: rotate.id, change: { acceptance: ["old tokens are refused"] } });
await goal.aliasTask({ alias: "T-900", task: rotate.id });
console.log(`T-900 is ${goal.task("T-900").id}: ${goal.task("T-900").title}`);
const { phaseName, task } = goal.position();
console.log(
  `position: ${phaseName}, ${task}; ready: ${(await goal.next()).tasks.map(({ id }) => id).join(", ")}`,
);

// ── Decisions, facts, questions ────────────────────────────────────────────────────────────────────────────
const context = { type: "technology", context: "JWT library" } as const;
const first = await goal.decide({ ...context, decision: "jsonwebtoken", reason: "known to all" });
await goal.supersede({ ...context, decision: "jose", reason: "typed", supersedes: first.id });
console.log(
  `decided: ${goal
    .decisions({ text: "jose" })
    .map(({ id, decision }) => `${id} ${decision}`)
    .join(", ")}`,
);
const doubted = await goal.decide({ ...context, decision: "sessions in Redis", reason: "not known" });
const { type } = await goal.retract({ event: doubted.id, why: "none of us wrote it", by: ann });
console.log(`retracted: ${type} of ${doubted.id}`);
await goal.fact({ key: "db", value: "postgres 17", source: "docker-compose.yml" });
await goal.fact({ key: "port", value: 8080, source: "a guess" });
await goal.forget({ key: "port", why: "it was a guess" });
const question = await goal.ask({ text: "How long do tokens live?" });
await goal.answer({ question, answer: "15 minutes" });
const assumed = await goal.assume({ text: "tokens are never shared between devices" });
await goal.settle({ assumption: assumed, status: "refuted", evidence: "two devices of one user share one" });
await goal.implementation({ text: "Tokens are rotated in auth.ts", files: ["auth.ts"] });
await goal.recordError({ message: "the test database was down" });
console.log(`facts: ${JSON.stringify(goal.runState().confirmedFacts)}`);

// ── Files are remembered by their content ──────────────────────────────────────────────────────────────────
writeFileSync(join(root, "auth.ts"), "export {};");
await goal.recordFiles({ files: [{ path: "auth.ts", act: "modified" }] });
writeFileSync(join(root, "auth.ts"), "export const changed = true;");
for (const { path, verdict } of (await goal.checkFiles()).files) console.log(`${path}: ${verdict}`);

// ── Blockers ───────────────────────────────────────────────────────────────────────────────────────────────
const reported = await goal.block({ description: "no staging key", affects: ["T-001"], identified: false });
await goal.identify({ blocker: reported.id });
console.log(`blocked: ${[...goal.survey().blockedBy.keys()].join(", ")}`);
await goal.bypass({ blocker: reported.id, workaround: "a local key" });
await goal.resolve({ blocker: reported.id, resolution: "the key came" });

// ── Sessions come and go; the goal knows what they did ─────────────────────────────────────────────────────
for (const session of ["mon", "tue", "wed"]) await goal.startSession({ session, agent: `agent-${session}` });
await goal.noteSession({ session: "mon", contextUsage: 0.8 });
await goal.handoff({ session: "mon", reason: "context 80%", next: "T-001" });
await goal.endSession({ session: "tue", notes: "nothing left to do" });
await goal.crashSession({ session: "wed", notes: "the machine was switched off" });
await goal.setNext({ next: "T-002" });
const history = [...goal.state.history.values()].map(({ id, status }) => `${id} ${status}`);
console.log(`sessions: ${history.join(", ")}`);

// ── What the next one reads ────────────────────────────────────────────────────────────────────────────────
const briefing = goal.briefing({ tokens: 400 });
console.log(`the briefing says what is next: ${briefing.includes("T-002")}`);

// ── Changing one's mind ────────────────────────────────────────────────────────────────────────────────────
await goal.drop({ task: "T-001", why: "the table is there already" });
await goal.drop({ task: "T-002", why: "so is this one" });
console.log(`phase ${await goal.move({ to: "API" })} now; ${goal.progress().bar}`);
await goal.reopen({ task: "T-001", why: "it was another table" });
await goal.drop({ task: "T-001", why: "no, it was the right one" });
await goal.drop({ task: rotate.id, why: "later" });
await goal.completePhase({ phase: "API" });
console.log(`phases completed: ${goal.progress().phasesCompleted} of 2`);
let events = 0;
for await (const _ of goal.events()) events++;
console.log(`every change is an event: ${events === goal.seq}`);
const { state: early } = await goal.at(1);
console.log(`at its first event it had ${early.tasks.size} tasks`);
// After a pull: acts in the name of people count once a person has confirmed them.
console.log(`to confirm: ${(await goal.confirm({ events: "all", by: ann })).length}`);
unwatch();
await goal.close();
console.log(`goals: ${(await holdfast.goals.list()).map(({ id }) => id).join(", ")}`);
await holdfast.goals.prune({ status: "done", olderThanMs: 90 * 86_400_000 });
await holdfast.goals.erase("checkout");
console.log(`goals after the erase: ${(await holdfast.goals.list()).length}`);
await holdfast.close();
