/**
 * Who may do what to a goal, as one table.
 *
 * An architect plans, a worker does, a verifier closes, an orchestrator steers, a supervisor cleans up after the
 * dead, a human may do everything. A role is a statement by whoever calls: it keeps honest agents in their lane
 * and makes the log say who did what; it is no defence against a caller that lies about itself.
 */

import { HoldfastError } from "../errors.ts";
import { quoteValue } from "../names.ts";

export const ROLES = ["worker", "architect", "orchestrator", "verifier", "human", "supervisor"] as const;
export type GoalRole = (typeof ROLES)[number];

/** Who did it, on every event of a goal. */
export interface Actor {
  readonly name: string;
  readonly role: GoalRole;
}

const PLANNERS = ["architect", "orchestrator"] as const;
const EVERYONE = ["worker", "architect", "orchestrator", "verifier", "supervisor"] as const;
const AGENTS = ["worker", "architect", "orchestrator", "verifier"] as const;
const DOERS = ["worker", "verifier"] as const;

/**
 * Beside these, a human may do everything. Two rows say less than is so: a verifier claims only reviews, and a blocker is
 * resolved by planners or by whoever reported it. See `refuseRole`.
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
  setNext: EVERYONE,
  recordError: EVERYONE,
  startSession: EVERYONE,
  noteSession: EVERYONE,
  endSession: EVERYONE,
  crashSession: ["supervisor", "orchestrator"],
  handoff: EVERYONE,
} as const satisfies Record<string, readonly GoalRole[]>;

export type GoalOperation = keyof typeof MAY;

/** Where the name of an act does not say it: `addTask` is to add a task. */
const IN_WORDS: Partial<Record<GoalOperation, string>> = {
  create: "make a goal",
  fact: "record a fact",
  implementation: "record an implementation",
  recordFiles: "record files",
};

function inWords(operation: GoalOperation): string {
  return IN_WORDS[operation] ?? operation.replace(/[A-Z]/, (letter) => ` a ${letter.toLowerCase()}`);
}

/** `separate`: whoever did a task does not close it. `self`: submitting closes it. */
export const VERIFICATIONS = ["separate", "self"] as const;
export type Verification = (typeof VERIFICATIONS)[number];

export function mayDo(
  role: GoalRole,
  operation: GoalOperation,
  verification: Verification = "separate",
): boolean {
  if (role === "human") return true;
  if (operation === "verify" && role === "worker" && verification === "self") return true;
  return (MAY[operation] as readonly GoalRole[]).includes(role);
}

/** Throws `ROLE_REFUSED`, saying who could do it instead. */
export function checkRole(by: Actor, operation: GoalOperation, verification: Verification): void {
  if (!mayDo(by.role, operation, verification)) throw refuseRole(by, operation);
}

/** Whoever plans may do with a blocker what they find right; others lift what they reported themselves. */
export function checkResolving(by: Actor, blocker: { readonly id: string; readonly by: Actor }): void {
  const isPlanner = by.role === "human" || (PLANNERS as readonly GoalRole[]).includes(by.role);
  if (isPlanner || by.name === blocker.by.name) return;
  throw refuseRole(by, "resolve", `${blocker.id} was reported by ${quoteValue(blocker.by.name)}`, PLANNERS);
}

/** The role would do, but not this one's. */
export function refuseOwnWork(by: Actor, task: string): HoldfastError {
  const { message, data } = refuseRole(by, "verify", `${task} is its own work`);
  return new HoldfastError("ROLE_REFUSED", message, {
    hint: "Somebody else has to look at it: an agent with another name (--by on the command line, `by` in code), or a person.",
    data,
  });
}

export function refuseRole(
  by: Actor,
  operation: GoalOperation,
  because = "",
  allowed: readonly GoalRole[] = MAY[operation],
): HoldfastError {
  const able = [...allowed, "human"].join(", ");
  return new HoldfastError(
    "ROLE_REFUSED",
    `${quoteValue(by.name)}, ${/^[aeiou]/.test(by.role) ? "an" : "a"} ${by.role}, may not ${inWords(operation)}${because && `: ${because}`}`,
    {
      hint: `Leave it to one of these roles: ${able}. If you act as one of them, say so: --role on the command line, \`by\` in code.`,
      data: { by, operation, allowed: [...allowed, "human"] },
    },
  );
}
