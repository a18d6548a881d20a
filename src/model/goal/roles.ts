/**
 * The roles of actors and the operations that each may do: one table.
 *
 * An architect plans, a worker builds, a verifier accepts, an orchestrator steers, a supervisor cleans up
 * after crashes, a human may do everything. Callers state their own role. This keeps honest agents in their
 * lane and makes the log say who did what. It is no defence against a caller that lies.
 */

import { HoldfastError } from "../errors.ts";
import { quoteValue } from "../names.ts";

export const ROLES = ["worker", "architect", "orchestrator", "verifier", "human", "supervisor"] as const;
export type GoalRole = (typeof ROLES)[number];

/** The author of an event: `{ name: "claude", role: "worker" }`. */
export interface Actor {
  readonly name: string;
  readonly role: GoalRole;
}

const PLANNERS = ["architect", "orchestrator"] as const;
const EVERYONE = ["worker", "architect", "orchestrator", "verifier", "supervisor"] as const;
const AGENTS = ["worker", "architect", "orchestrator", "verifier"] as const;
const DOERS = ["worker", "verifier"] as const;

/**
 * A human may do everything. Two rows have further limits: a verifier claims only reviews, and a blocker is
 * resolved by planners or by the agent that reported it.
 */
export const MAY = {
  create: PLANNERS,
  describe: PLANNERS,
  addPhase: PLANNERS,
  addPlan: PLANNERS,
  addTask: AGENTS,
  editTask: PLANNERS,
  aliasTask: ["orchestrator", "supervisor"],
  claim: DOERS,
  progress: DOERS,
  submit: DOERS,
  fail: DOERS,
  release: DOERS,
  verify: ["verifier"],
  reset: ["supervisor", "orchestrator"],
  retry: [...PLANNERS, "supervisor"],
  drop: PLANNERS,
  reopen: [...PLANNERS, "verifier"],
  move: PLANNERS,
  completePhase: [...PLANNERS, "verifier"],
  decide: AGENTS,
  supersede: PLANNERS,
  block: EVERYONE,
  identify: [...PLANNERS, "verifier"],
  bypass: PLANNERS,
  resolve: EVERYONE,
  fact: AGENTS,
  forget: AGENTS,
  recordFiles: AGENTS,
  implementation: AGENTS,
  ask: AGENTS,
  answer: PLANNERS,
  assume: AGENTS,
  settle: AGENTS,
  setNext: EVERYONE,
  recordError: EVERYONE,
  startSession: EVERYONE,
  noteSession: EVERYONE,
  endSession: EVERYONE,
  crashSession: ["supervisor", "orchestrator"],
  handoff: EVERYONE,
  retract: [],
  confirm: [],
} as const satisfies Record<string, readonly GoalRole[]>;

export type GoalOperation = keyof typeof MAY;

/** Operations whose name does not read as a phrase; `addTask` reads as "add a task". */
const IN_WORDS: Partial<Record<GoalOperation, string>> = {
  create: "make a goal",
  fact: "record a fact",
  implementation: "record an implementation",
  recordFiles: "record files",
  assume: "record an assumption",
  settle: "confirm or refute an assumption",
  retract: "retract an event",
  confirm: "confirm an act that a pull brought",
};

/** `separate`: another agent accepts submitted work. `self`: submitted work is done. */
export const VERIFICATIONS = ["separate", "self"] as const;
export type Verification = (typeof VERIFICATIONS)[number];

export function mayDo(role: GoalRole, operation: GoalOperation, verification?: Verification): boolean {
  if (role === "human") return true;
  if (operation === "verify" && role === "worker" && verification === "self") return true;
  return (MAY[operation] as readonly GoalRole[]).includes(role);
}

export function checkRole(by: Actor, operation: GoalOperation, verification: Verification): void {
  if (!mayDo(by.role, operation, verification)) throw refuseRole(by, operation);
}

/** The operation behind each event that an edit of a rendered file can become. */
const OPERATION_OF: Readonly<Record<string, GoalOperation>> = {
  "goal.described": "describe",
  "phase.added": "addPhase",
  "plan.added": "addPlan",
  "phase.entered": "move",
  "phase.completed": "completePhase",
  "task.added": "addTask",
  "task.edited": "editTask",
  "task.aliased": "aliasTask",
  "task.claimed": "claim",
  "task.progressed": "progress",
  "task.submitted": "submit",
  "task.accepted": "verify",
  "task.rejected": "verify",
  "task.failed": "fail",
  "task.released": "release",
  "task.reset": "reset",
  "task.retried": "retry",
  "task.dropped": "drop",
  "task.reopened": "reopen",
  "decision.made": "decide",
  "blocker.reported": "block",
  "blocker.identified": "block",
  "blocker.bypassed": "bypass",
  "blocker.resolved": "resolve",
  "fact.set": "fact",
  "fact.forgotten": "forget",
  "files.recorded": "recordFiles",
  "implementation.noted": "implementation",
  "question.asked": "ask",
  "question.answered": "answer",
  "assumption.made": "assume",
  "assumption.settled": "settle",
  "next.set": "setNext",
};

interface Drafted {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** `checkRole` for an event that no operation made. An event without a row is for people. */
export function checkEventRole(by: Actor, { type, data }: Drafted, verification: Verification): void {
  const supersedes = type === "decision.made" && (data["supersedes"] ?? null) !== null;
  const operation = supersedes ? "supersede" : OPERATION_OF[type];
  if (by.role !== "human") checkRole(by, operation ?? "retract", verification);
}

/** Planners may resolve any blocker, other agents only those that they reported themselves. */
export function checkResolving(by: Actor, blocker: { readonly id: string; readonly by: Actor }): void {
  const isPlanner = by.role === "human" || (PLANNERS as readonly GoalRole[]).includes(by.role);
  if (isPlanner || by.name === blocker.by.name) return;
  throw refuseRole(by, "resolve", `${blocker.id} was reported by ${quoteValue(blocker.by.name)}`, PLANNERS);
}

export function refuseOwnWork(by: Actor, task: string): HoldfastError {
  const { message, data } = refuseRole(by, "verify", `${task} is its own work`);
  return new HoldfastError("ROLE_REFUSED", message, {
    hint:
      "Let another verifier review it: a person, or an agent with another name " +
      "(--by on the command line, `by` in code).",
    data,
  });
}

export function refuseRole(
  by: Actor,
  operation: GoalOperation,
  because = "",
  allowed: readonly GoalRole[] = MAY[operation],
): HoldfastError {
  const roles = [...allowed, "human"];
  const who = `${quoteValue(by.name)}, ${/^[aeiou]/.test(by.role) ? "an" : "a"} ${by.role}`;
  const what = IN_WORDS[operation] ?? operation.replace(/[A-Z]/, (letter) => ` a ${letter.toLowerCase()}`);
  const message = `${who}, may not ${what}${because && `: ${because}`}`;
  return new HoldfastError("ROLE_REFUSED", message, {
    hint:
      `Leave it to one of these roles: ${roles.join(", ")}. ` +
      "If you act as one of them, pass it: --role on the command line, `by` in code.",
    data: { by, operation, allowed: roles },
  });
}
