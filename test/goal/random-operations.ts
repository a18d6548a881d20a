import fc from "fast-check";
import type { Goal } from "../../src/goal/index.ts";
import { isHoldfastError } from "../../src/model/errors.ts";
import { human, supervisor, verifier, worker } from "./bench.ts";

/** One random operation: its kind, and numbers that pick its subject from the goal's current rows. */
export interface Step {
  readonly what: keyof typeof STEPS;
  readonly a: number;
  readonly b: number;
  readonly text: string;
}

const pick = <Value>(values: Iterable<Value>, at: number): Value | undefined => {
  const all = [...values];
  return all[at % Math.max(1, all.length)];
};
const task = (goal: Goal, at: number): string => pick(goal.state.tasks.keys(), at) ?? "T-001";
const blocker = (goal: Goal, at: number): string => pick(goal.state.blockers.keys(), at) ?? "B-001";
const phase = (goal: Goal, at: number): number => pick(goal.state.phases, at)?.number ?? 1;
const session = (at: number): string => `s-${at % 3}`;
const proof = (goal: Goal, at: number): { task: string; by: typeof worker } => {
  const held = [...goal.state.tasks.values()].filter(({ claim }) => claim);
  return { task: pick(held, at)?.id ?? task(goal, at), by: worker };
};

const STEPS = {
  phase: (goal: Goal, { text }: Step) => goal.addPhase({ name: text }),
  plan: (goal: Goal, { a, text }: Step) => goal.addPlan({ phase: phase(goal, a), name: text }),
  task: (goal: Goal, { a, b, text }: Step) =>
    goal.addTask({
      title: text,
      phase: phase(goal, a),
      plan: pick([null, ...(goal.state.phases[phase(goal, a) - 1]?.plans ?? [])], b)?.number ?? null,
      wave: 1 + (b % 3),
      dependsOn: b % 4 === 0 && goal.state.tasks.size > 0 ? [task(goal, a + b)] : [],
    }),
  review: (goal: Goal, { a, text }: Step) =>
    goal.addTask({ kind: "review", title: text, reviews: [task(goal, a)], checklist: [text] }),
  depend: (goal: Goal, { a, b }: Step) =>
    goal.editTask({ task: task(goal, a), change: { dependsOn: [task(goal, b)] } }),
  relocate: (goal: Goal, { a, b }: Step) =>
    goal.editTask({ task: task(goal, a), change: { phase: phase(goal, b), plan: null, wave: 1 + (b % 3) } }),
  claim: (goal: Goal, { a, b }: Step) => goal.claim(task(goal, a), { by: worker, session: session(b) }),
  claimNext: async (goal: Goal, { a, b }: Step) => {
    const next = pick((await goal.next()).tasks, a);
    if (next) await goal.claim(next.id, { by: worker, session: session(b) });
  },
  progress: (goal: Goal, { a, text }: Step) => goal.noteProgress({ ...proof(goal, a), note: text }),
  submit: (goal: Goal, { a, text }: Step) => goal.submit({ ...proof(goal, a), summary: text }),
  fail: (goal: Goal, { a, b, text }: Step) =>
    goal.fail({ ...proof(goal, a), error: text, retryable: b % 2 === 0 }),
  release: (goal: Goal, { a }: Step) => goal.release(proof(goal, a)),
  blockTask: (goal: Goal, { a, text }: Step) => goal.blockTask({ ...proof(goal, a), description: text }),
  verify: (goal: Goal, { a, b }: Step) => {
    const submitted = [...goal.state.tasks.values()].filter(({ status }) => status === "submitted");
    const id = pick(submitted, a)?.id ?? task(goal, a);
    return goal.verify({ task: id, accept: b % 4 !== 0, by: verifier });
  },
  reset: (goal: Goal, { a, text }: Step) =>
    goal.reset({ task: task(goal, a), why: text, force: true, by: supervisor }),
  retry: (goal: Goal, { a, text }: Step) => goal.retry({ task: task(goal, a), why: text }),
  drop: (goal: Goal, { a, text }: Step) => goal.drop({ task: task(goal, a), why: text }),
  reopen: (goal: Goal, { a, text }: Step) => goal.reopen({ task: task(goal, a), why: text }),
  alias: (goal: Goal, { a, b }: Step) =>
    goal.aliasTask({ alias: `T-${100 + (b % 5)}`, task: task(goal, a), by: human }),
  move: (goal: Goal, { a }: Step) => goal.move({ to: phase(goal, a) }),
  completePhase: (goal: Goal, { a }: Step) => goal.completePhase({ phase: phase(goal, a) }),
  block: (goal: Goal, { a, b, text }: Step) =>
    goal.block({
      description: text,
      identified: b % 5 !== 0,
      affects: {
        tasks: b % 2 === 0 ? [task(goal, a)] : [],
        phases: b % 3 === 0 ? [phase(goal, a)] : [],
        goal: b % 11 === 0,
        other: b % 7 === 0 ? [text] : [],
      },
    }),
  identify: (goal: Goal, { a }: Step) => goal.identify({ blocker: blocker(goal, a) }),
  bypass: (goal: Goal, { a, b, text }: Step) =>
    goal.bypass({
      blocker: blocker(goal, a),
      workaround: text,
      followUps: b % 2 === 0 ? [{ title: text }] : [],
    }),
  resolve: (goal: Goal, { a, text }: Step) => goal.resolve({ blocker: blocker(goal, a), resolution: text }),
  decide: (goal: Goal, { a, text }: Step) =>
    goal.decide({
      type: "constraint",
      context: text,
      decision: text,
      reason: text,
      files: [`src/f${a % 5}.ts`],
    }),
  supersede: (goal: Goal, { a, text }: Step) => {
    const supersedes = pick(goal.state.decisions.keys(), a) ?? "D-001";
    return goal.supersede({ type: "preference", context: text, decision: text, reason: text, supersedes });
  },
  fact: (goal: Goal, { a, b, text }: Step) =>
    goal.fact({ key: `k${a % 6}`, value: { text, b }, source: text, expiresAt: b % 2 === 0 ? null : b }),
  forget: (goal: Goal, { a, text }: Step) => goal.forget({ key: `k${a % 6}`, why: text }),
  files: (goal: Goal, { a, b }: Step) =>
    goal.recordFiles({
      files: [{ path: `src/f${a % 5}.ts`, act: b % 2 === 0 ? "examined" : "modified", hash: "c".repeat(64) }],
      task: goal.state.tasks.size > 0 ? task(goal, a) : null,
    }),
  built: (goal: Goal, { text }: Step) => goal.implementation({ text }),
  ask: (goal: Goal, { text }: Step) => goal.ask({ text }),
  answer: (goal: Goal, { a, text }: Step) =>
    goal.answer({ question: pick(goal.state.questions.keys(), a) ?? "Q-001", answer: text }),
  assume: (goal: Goal, { text }: Step) => goal.assume({ text }),
  settle: (goal: Goal, { a, b, text }: Step) =>
    goal.settle({
      assumption: pick(goal.state.assumptions.keys(), a) ?? "A-001",
      status: b % 2 === 0 ? "confirmed" : "refuted",
      evidence: text,
    }),
  next: (goal: Goal, { a, b, text }: Step) => goal.setNext({ next: b % 2 === 0 ? task(goal, a) : text }),
  error: (goal: Goal, { text }: Step) => goal.recordError({ message: text }),
  start: (goal: Goal, { a, text }: Step) =>
    goal.startSession({ session: session(a), notes: text, by: worker }),
  end: (goal: Goal, { a, text }: Step) =>
    goal.endSession({ session: session(a), issues: [text], by: worker }),
  handoff: (goal: Goal, { a, b, text }: Step) =>
    goal.handoff({
      session: session(a),
      reason: text,
      next: text,
      contextUsage: (b % 100) / 100,
      by: worker,
    }),
  crash: (goal: Goal, { a, text }: Step) => goal.crashSession({ session: session(a), notes: text }),
  describe: (goal: Goal, { text, b }: Step) =>
    goal.describe({ statement: text, verification: b % 2 === 0 ? "self" : "separate" }),
} satisfies Record<string, (goal: Goal, step: Step) => Promise<unknown>>;

/** Common operations are drawn more often, so that goals make progress. */
const WEIGHTS: Partial<Record<keyof typeof STEPS, number>> = {
  task: 14,
  claimNext: 14,
  submit: 12,
  verify: 12,
  block: 5,
  review: 5,
  fail: 4,
  phase: 1,
  completePhase: 1,
  resolve: 3,
  describe: 1,
};

export function anySteps(
  text: fc.Arbitrary<string>,
  maxLength: number,
  minLength = 20,
): fc.Arbitrary<Step[]> {
  const names = Object.keys(STEPS) as (keyof typeof STEPS)[];
  const what = fc.oneof(
    ...names.map((name) => ({ weight: WEIGHTS[name] ?? 2, arbitrary: fc.constant(name) })),
  );
  const number = fc.nat({ max: 10_000 });
  return fc.array(fc.record({ what, a: number, b: number, text }), { minLength, maxLength, size: "max" });
}

/** Initial content, so that the first steps are not spent on an empty goal. */
export const BEGINNING = {
  phases: ["one", "two"],
  tasks: [
    { title: "a", phase: 1 },
    { title: "b", phase: 1, wave: 2 },
    { title: "c", phase: 1, dependsOn: ["T-001"] },
    { kind: "review", title: "d", phase: 1, reviews: ["T-001"], checklist: ["x"] },
    { title: "e", phase: 2, dependsOn: ["T-002"] },
    { title: "f", phase: 2 },
  ],
} as const;

/** Rejections are expected. An error that is not a HoldfastError is a bug. */
export async function take(goal: Goal, step: Step): Promise<string> {
  try {
    await STEPS[step.what](goal, step);
    return "ok";
  } catch (error) {
    if (isHoldfastError(error)) return error.code;
    throw error;
  }
}
