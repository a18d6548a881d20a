/** Acts on a task that an agent works on, and on what it hands in. */

import { leaseLost } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import {
  type Actor,
  blockedTasks,
  type Evidence,
  type GoalDraft,
  type GoalState,
  nextStatus,
  refuseOwnWork,
  refuseRole,
  startBlockedBy,
  type Task,
  type TaskAct,
  type TaskClaim,
  taskOf,
} from "../model/goal/index.ts";
import type { Guard } from "../store.ts";
import { type Act, closingPhase } from "./act.ts";
import { leaseName } from "./task-leases.ts";

/** Refuses what nobody could claim now. A task in progress passes: its lease decides whether it can be taken over. */
export function checkClaimable(state: GoalState, by: Actor, id: string): Task {
  const task = taskOf(state, id);
  if (by.role === "verifier" && task.kind !== "review") {
    throw refuseRole(by, "claim", `${task.id} is a build task, a verifier claims reviews only`);
  }
  nextStatus(task, "claim");
  const blockers = blockedTasks(state).get(task.id);
  const why = blockers
    ? `is blocked by ${blockers.join(", ")}`
    : task.status === "in_progress"
      ? null
      : startBlockedBy(state, task);
  if (why === null) return task;
  const hint = blockers
    ? "Resolve or bypass the blocker first, or take another task: `next` lists what is ready."
    : "Take another task: `next` lists what is ready.";
  throw new HoldfastError("TASK_NOT_READY", `task ${task.id} ${why}`, { hint, data: { task: task.id } });
}

/** A claim of another clone has a token of that clone's store, which says nothing about the leases of this one. */
export function isForeign(state: GoalState, claim: TaskClaim | null): boolean {
  return state.origins.has(claim?.uid ?? "");
}

/** Whether the claim was made under this store's lease of that token. */
export function isUnder(state: GoalState, claim: TaskClaim | null, token: number): boolean {
  return claim?.token === token && !isForeign(state, claim);
}

export interface ClaimData {
  readonly task: string;
  readonly session: string | null;
  readonly guard: Guard;
}

/** `result` is the task as it was before: its claim, if it had one, is what was taken over. */
export function claim(state: GoalState, by: Actor, { task: id, session, guard }: ClaimData): Act<Task> {
  const task = checkClaimable(state, by, id);
  if (isUnder(state, task.claim, guard.token)) return { events: [], result: task };
  const data = {
    by,
    task: task.id,
    session,
    token: guard.token,
    after: task.claim?.uid ?? null,
    as: task.id,
  };
  return { events: [{ type: "task.claimed", data }], result: task, guards: [guard] };
}

/** How a caller shows that a claim is its own: by the token, or by being who claimed it. */
export interface ClaimProof {
  readonly task: string;
  readonly token?: number | undefined;
  readonly session?: string | undefined;
}

// The acts under a claim answer with the task as it was before them: its claim says which lease to let go.

/** The claim, if it is still the caller's. A token from before a take-over never matches again. */
function held(
  state: GoalState,
  by: Actor,
  proof: ClaimProof,
  act: TaskAct,
): { task: Task; claim: TaskClaim; guards: Guard[] } {
  const task = claimedAs(state, proof) ?? taskOf(state, proof.task);
  const { claim } = task;
  const lease = leaseName(state.id, claim?.as ?? task.id);
  const isSameAgent =
    claim?.by.name === by.name &&
    (proof.session ?? claim.session) === claim.session &&
    !isForeign(state, claim);
  const isOurs = proof.token === undefined ? isSameAgent : isUnder(state, claim, proof.token);
  if (claim && isOurs) return { task, claim, guards: [{ lease, token: claim.token }] };
  if (proof.token !== undefined) throw leaseLost(lease, null);
  refuseOldName(state, by, proof.task);
  if (!claim) nextStatus(task, act);
  throw heldByAnother(state, by, task, claim);
}

/** Whoever holds a task that got another number in a merge may still say the old one, which is another task now. */
function refuseOldName(state: GoalState, by: Actor, name: string): void {
  if (state.merges.length === 0) return;
  const renumbered = [...state.tasks.values()].find(
    ({ id, claim }) =>
      claim?.as === name && id !== name && claim.by.name === by.name && !isForeign(state, claim),
  );
  if (!renumbered) return;
  throw new HoldfastError(
    "TASK_TRANSITION",
    `what ${by.name} claimed as ${name} is now ${renumbered.id}, since a merge`,
    {
      hint: `Say ${renumbered.id}. ${name} is another task, which came from another clone.`,
      data: { task: name, now: renumbered.id },
    },
  );
}

function heldByAnother(state: GoalState, by: Actor, { id }: Task, claim: TaskClaim | null): HoldfastError {
  if (isForeign(state, claim)) {
    const not = claim?.by.name === by.name ? "" : `, not by ${by.name}`;
    return new HoldfastError(
      "LEASE_LOST",
      `task ${id} is held by ${claim?.by.name}, in another clone${not}`,
      {
        hint: `To go on with it here, claim it here: holdfast task claim ${id}`,
        data: { task: id, holder: claim?.by.name, session: claim?.session },
      },
    );
  }
  const session = claim?.session == null ? "" : ` in session ${claim.session}`;
  const isSession = claim?.by.name === by.name;
  const who = isSession ? `${by.name}${session}` : `${claim?.by.name}`;
  const whom = isSession ? "in this one" : `by ${by.name}`;
  return new HoldfastError("LEASE_LOST", `task ${id} is held by ${who}, not ${whom}`, {
    hint: isSession
      ? `Say that session, or none. To take it over once it is free: holdfast task claim ${id}`
      : `Only who claimed it goes on with it. To take it over once it is free: holdfast task claim ${id}`,
    data: { task: id, holder: claim?.by.name, session: claim?.session },
  });
}

/** The task that the caller claimed by that name, although a merge has given it another one since. */
function claimedAs(state: GoalState, { task: name, token }: ClaimProof): Task | undefined {
  if (token === undefined || state.merges.length === 0) return undefined;
  return [...state.tasks.values()].find(({ claim }) => claim?.as === name && isUnder(state, claim, token));
}

/** How an event says under which claim it was done. */
function under({ uid }: TaskClaim): { claim?: string } {
  return uid === null ? {} : { claim: uid };
}

export function progress(state: GoalState, by: Actor, proof: ClaimProof, note: string | null): Act<Task> {
  const { task, claim, guards } = held(state, by, proof, "progress");
  const data = { by, task: task.id, token: claim.token, ...under(claim), note };
  return { events: [{ type: "task.progressed", data }], result: task, guards };
}

/** Where the goal does not ask for a verifier, handing in is finishing. */
export function submit(state: GoalState, by: Actor, proof: ClaimProof, evidence: Evidence): Act<Task> {
  const { task, claim, guards } = held(state, by, proof, "submit");
  const submitted: GoalDraft = {
    type: "task.submitted",
    data: { by, task: task.id, token: claim.token, ...under(claim), evidence: evidence as never },
  };
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
  const { task, claim, guards } = held(state, by, proof, "fail");
  const data = { ...failure, by, task: task.id, token: claim.token, ...under(claim) };
  return { events: [{ type: "task.failed", data }], result: task, guards };
}

export function release(state: GoalState, by: Actor, proof: ClaimProof, why: string | null): Act<Task> {
  const { task, claim, guards } = held(state, by, proof, "release");
  const data = { by, task: task.id, token: claim.token, ...under(claim), why };
  return { events: [{ type: "task.released", data }], result: task, guards };
}

export interface Verdict {
  readonly task: string;
  readonly accept: boolean;
  readonly why?: string | null;
  /** Which attempt was looked at (`task.attempts`). Refused once another one has been handed in. */
  readonly attempt?: number;
}

/** Nobody closes their own work, unless the goal says so or a person does. */
export function verify(state: GoalState, by: Actor, verdict: Verdict): Act<string> {
  const task = taskOf(state, verdict.task);
  const isOwn = task.submission?.by.name === by.name;
  if (isOwn && by.role !== "human" && state.verification === "separate") {
    throw refuseOwnWork(by, task.id);
  }
  if (verdict.attempt !== undefined && verdict.attempt !== task.attempts)
    throw lookedAtAnother(task, verdict.attempt);
  const data = { by, task: task.id, why: verdict.why ?? null };
  if (!verdict.accept) return { events: [{ type: "task.rejected", data }], result: task.id };
  const accepted: GoalDraft = { type: "task.accepted", data };
  return { events: [accepted, ...closingPhase(state, task, by)], result: task.id };
}

function lookedAtAnother({ id, attempts }: Task, attempt: number): HoldfastError {
  return new HoldfastError(
    "TASK_TRANSITION",
    `task ${id}: attempt ${attempt} was looked at, and ${attempts} is what it is at now`,
    { hint: "Look at what was handed in since, and judge that.", data: { task: id, attempt, attempts } },
  );
}

/** The task goes back, and the session that held it counts as crashed. With `seen`: only from the claim of that token. */
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
