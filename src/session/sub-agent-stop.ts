/**
 * What a person's word that a sub-agent's call did not happen takes: nobody may do it afterwards. So the sub-agent is stopped
 * first, and the sub-agents below it before that, each under its lease, so that nobody is at it meanwhile:
 *
 *     one of its calls is in doubt ──▶ refused, with the commands that answer for those first
 *     somebody holds its session ──▶ refused
 *     else ──▶ cancelled, durable, and only then is the outcome of the parent's call written
 *
 * A crash between the two leaves a cancelled sub-agent and an open call: the person answers once more, or the next run of the
 * parent is told that its sub-agent was cancelled, which comes to the same. A crash further down leaves the lower ones cancelled.
 */

import { commitResult, type Journal, Lease } from "../journal/index.ts";
import { type Call, HoldfastError, openCallsOf, sessionKind } from "../model/index.ts";
import { type OnCrash, takeFromDead } from "./abandoned-lease.ts";
import { cancellation, childId } from "./children.ts";
import { lifeOf } from "./life.ts";

interface Stop {
  readonly journal: Journal;
  readonly by: string;
  readonly why: string;
  readonly onCrash: OnCrash;
}

/** The call of that session's life may be one of any tool: most have no sub-agent. */
export async function stopSubAgent(stop: Stop, life: string, callId: string): Promise<void> {
  const { journal, by, why } = stop;
  const id = childId(life, callId);
  const log = await journal.open(sessionKind, id);
  if (!log.exists) return;
  if (log.state.status !== "active") return mustBeCertain(callId, id, openCallsOf(log.state));
  const lease = await takeFromDead(journal, log.stream, by, stop.onCrash);
  if (!(lease instanceof Lease)) throw isHeld(callId, id, lease.holder?.label ?? "another process");
  try {
    await log.refresh();
    const { generation } = log.head;
    const open = openCallsOf(log.state);
    mustBeCertain(callId, id, open);
    for (const call of open) await stopSubAgent(stop, lifeOf(id, generation), call.id);
    const outcome = await log.commit((state, head) => {
      if (head.generation !== generation) return { events: [], result: undefined };
      mustBeCertain(callId, id, openCallsOf(state));
      return { events: cancellation(state, { by, why }, true), result: undefined, guards: [lease.guard] };
    });
    commitResult(outcome);
  } finally {
    await lease.release();
  }
}

/** Begun, and nobody knows what came of it. One that a person allowed once more has, by their word, not happened. */
function isInDoubt({ status, doubt }: Call): boolean {
  return status === "issued" || doubt !== null;
}

function mustBeCertain(callId: string, session: string, open: readonly Call[]): void {
  const calls = open.filter(isInDoubt);
  if (calls.length === 0) return;
  const named = calls.map(({ id, tool, status }) => `${tool} ${id} (${status})`).join(", ");
  const commands = calls.map(({ id }) => `holdfast resolve ${id} landed|failed --session ${session}`);
  throw new HoldfastError(
    "SESSION_HAS_OPEN_CALLS",
    `call ${callId} cannot be said to have failed: of its sub-agent ${session} nobody knows whether these happened: ${named}`,
    {
      hint: `Answer for those first: ${commands.join("; ")}. Or let its agent run, which finds out what it can.`,
      data: { callId, session, calls: calls.map(({ id }) => id) },
    },
  );
}

function isHeld(callId: string, session: string, holder: string): HoldfastError {
  return new HoldfastError(
    "SESSION_HELD",
    `call ${callId} cannot be said to have failed: its sub-agent ${session} is held by ${holder}`,
    { hint: "Answer when that has let go of it, or cancel the session.", data: { callId, session } },
  );
}
