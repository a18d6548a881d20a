/**
 * Acts on claimed tasks, submissions and verdicts.
 *
 * The acts under a claim return the task as it was before them: its claim names the lease to release.
 */

import { leaseLost } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Actor, Evidence, GoalDraft, GoalState, Task, TaskAct, TaskClaim } from "../model/goal/index.ts";
import {
  blockedTasks,
  nextStatus,
  refuseOwnWork,
  refuseRole,
  startBlockedBy,
  taskOf,
} from "../model/goal/index.ts";
import type { Guard } from "../store.ts";
import { type Act, closingPhase } from "./act.ts";
import { leaseName } from "./task-leases.ts";

/** Throws if the task cannot be claimed now. A task in progress passes: its lease decides. */
export function checkClaimable(state: GoalState, by: Actor, id: string): Task {
  const task = taskOf(state, id);
  if (by.role === "verifier" && task.kind !== "review") {
    throw refuseRole(by, "claim", `${task.id} is a build task, a verifier claims reviews only`);
  }
  nextStatus(task, "claim");
  const blockers = blockedTasks(state).get(task.id);
  const wait = task.status === "in_progress" ? null : startBlockedBy(state, task);
  const why = blockers ? `is blocked by ${blockers.join(", ")}` : wait;
  if (why === null) return task;
  const first = blockers ? "Resolve or bypass the blocker first, or take" : "Take";
  const hint = `${first} another task: \`next\` lists what is ready.`;
  throw new HoldfastError("TASK_NOT_READY", `task ${task.id} ${why}`, { hint, data: { task: task.id } });
}

/** Whether the claim was made in another copy of the goal: its token is of that copy's store. */
export function isForeign(state: GoalState, claim: TaskClaim | null): boolean {
  return state.origins.has(claim?.uid ?? "");
}

export function isUnder(state: GoalState, claim: TaskClaim | null, token: number): boolean {
  return claim?.token === token && !isForeign(state, claim);
}

export function claim(
  state: GoalState,
  by: Actor,
  input: { readonly task: string; readonly session: string | null; readonly guard: Guard },
): Act<Task> {
  const { session, guard } = input;
  const task = checkClaimable(state, by, input.task);
  if (isUnder(state, task.claim, guard.token)) return { events: [], result: task };
  const { token } = guard;
  const data = { by, task: task.id, session, token, after: task.claim?.uid ?? null, as: task.id };
  return { events: [{ type: "task.claimed", data }], result: task, guards: [guard] };
}

/** Proves that a claim is the caller's: by its token, or else by the name and session of the actor. */
export interface ClaimProof {
  readonly task: string;
  readonly token?: number | undefined;
  readonly session?: string | undefined;
}

/**
 * The caller's claim, and the fields of an event under it; throws if it is lost. A token from before a
 * take-over never matches again.
 */
function heldClaim(state: GoalState, by: Actor, proof: ClaimProof, act: TaskAct) {
  const task = claimedAs(state, proof) ?? taskOf(state, proof.task);
  const { claim } = task;
  const lease = leaseName(state.id, claim?.as ?? task.id);
  const isSameAgent =
    claim?.by.name === by.name &&
    (proof.session ?? claim.session) === claim.session &&
    !isForeign(state, claim);
  const isOurs = proof.token === undefined ? isSameAgent : isUnder(state, claim, proof.token);
  if (claim && isOurs) {
    const data = { by, task: task.id, token: claim.token, ...under(claim) };
    return { task, data, guards: [{ lease, token: claim.token }] };
  }
  if (proof.token !== undefined) throw leaseLost(lease, null);
  rejectOldName(state, by, proof.task);
  if (!claim) nextStatus(task, act);
  throw heldByAnother(state, by, task, claim);
}

/** After a merge gave a claimed task another id, its holder may still use the old one. */
function rejectOldName(state: GoalState, by: Actor, name: string): void {
  if (state.merges.length === 0) return;
  const renumbered = [...state.tasks.values()].find(
    ({ id, claim }) =>
      claim?.as === name && id !== name && claim.by.name === by.name && !isForeign(state, claim),
  );
  if (!renumbered) return;
  const { id: now } = renumbered;
  const message = `task ${name}, which ${by.name} claimed before a merge, is now ${now}`;
  const hint = `Use ${now}. ${name} is now another task, from another clone.`;
  throw new HoldfastError("TASK_TRANSITION", message, { hint, data: { task: name, now } });
}

function heldByAnother(state: GoalState, by: Actor, { id }: Task, claim: TaskClaim | null): HoldfastError {
  const holder = claim?.by.name;
  const isSameAgent = holder === by.name;
  const lost = (who: string, hint: string): HoldfastError =>
    new HoldfastError("LEASE_LOST", `task ${id} is held by ${who}`, {
      hint: `${hint}: holdfast task claim ${id}`,
      data: { task: id, holder, session: claim?.session },
    });
  if (isForeign(state, claim)) {
    const not = isSameAgent ? "" : `, not by ${by.name}`;
    return lost(`${holder}, in another clone${not}`, "To continue it here, claim it here");
  }
  const session = claim?.session == null ? "" : ` in session ${claim.session}`;
  const later = "To take it over once it is free";
  return isSameAgent
    ? lost(`${holder}${session}, not in this one`, `Pass that session, or none. ${later}`)
    : lost(`${holder}, not by ${by.name}`, `Only its holder can continue it. ${later}`);
}

function claimedAs(state: GoalState, { task: name, token }: ClaimProof): Task | undefined {
  if (token === undefined || state.merges.length === 0) return undefined;
  return [...state.tasks.values()].find(({ claim }) => claim?.as === name && isUnder(state, claim, token));
}

function under({ uid }: TaskClaim): { claim?: string } {
  return uid === null ? {} : { claim: uid };
}

export function progress(state: GoalState, by: Actor, proof: ClaimProof, note: string | null): Act<Task> {
  const { task, data, guards } = heldClaim(state, by, proof, "progress");
  return { events: [{ type: "task.progressed", data: { ...data, note } }], result: task, guards };
}

export function submit(state: GoalState, by: Actor, proof: ClaimProof, evidence: Evidence): Act<Task> {
  const { task, data, guards } = heldClaim(state, by, proof, "submit");
  const submitted: GoalDraft = { type: "task.submitted", data: { ...data, evidence: evidence as never } };
  if (state.verification === "separate") return { events: [submitted], result: task, guards };
  const accepted: GoalDraft = { type: "task.accepted", data: { by, task: task.id, why: null } };
  return { events: [submitted, accepted, ...closingPhase(state, task, by)], result: task, guards };
}

export function fail(
  state: GoalState,
  by: Actor,
  proof: ClaimProof,
  failure: { error: string; retryable: boolean },
): Act<Task> {
  const { task, data, guards } = heldClaim(state, by, proof, "fail");
  return { events: [{ type: "task.failed", data: { ...failure, ...data } }], result: task, guards };
}

export function release(state: GoalState, by: Actor, proof: ClaimProof, why: string | null): Act<Task> {
  const { task, data, guards } = heldClaim(state, by, proof, "release");
  return { events: [{ type: "task.released", data: { ...data, why } }], result: task, guards };
}

/** A verdict on submitted work: `{ task: "T-001", accept: false, why: "tests fail", attempt: 2 }`. */
export interface Verdict {
  readonly task: string;
  readonly accept: boolean;
  readonly why?: string | null;
  /** The attempt that was reviewed (`task.attempts`). Rejected once another one was submitted. */
  readonly attempt?: number;
}

/** Agents may not accept their own work, unless the goal allows it. People may. */
export function verify(state: GoalState, by: Actor, verdict: Verdict): Act<string> {
  const task = taskOf(state, verdict.task);
  const isOwn = task.submission?.by.name === by.name;
  if (isOwn && by.role !== "human" && state.verification === "separate") throw refuseOwnWork(by, task.id);
  if (verdict.attempt !== undefined && verdict.attempt !== task.attempts)
    throw outdatedAttempt(task, verdict.attempt);
  const data = { by, task: task.id, why: verdict.why ?? null };
  if (!verdict.accept) return { events: [{ type: "task.rejected", data }], result: task.id };
  const accepted: GoalDraft = { type: "task.accepted", data };
  return { events: [accepted, ...closingPhase(state, task, by)], result: task.id };
}

function outdatedAttempt({ id, attempts }: Task, attempt: number): HoldfastError {
  const message = `task ${id}: attempt ${attempt} is outdated (it is at attempt ${attempts})`;
  const hint = `Review the latest attempt: holdfast task show ${id}`;
  return new HoldfastError("TASK_TRANSITION", message, { hint, data: { task: id, attempt, attempts } });
}

/** Marks the session that held the task as crashed. With `seen`: only if the claim still has that token. */
export function reset(
  state: GoalState,
  by: Actor,
  id: string,
  why: string,
  guard: Guard,
  seen?: number,
): Act<string> {
  const task = taskOf(state, id);
  if (seen !== undefined && task.claim?.token !== seen) return { events: [], result: task.id };
  const claim = task.claim ? under(task.claim) : {};
  const events: GoalDraft[] = [{ type: "task.reset", data: { by, task: task.id, ...claim, why } }];
  const session = task.claim?.session ?? null;
  if (session !== null && state.history.get(session)?.status === "active") {
    events.push({ type: "session.crashed", data: { by, session, notes: why } });
  }
  return { events, result: task.id, guards: [guard] };
}
