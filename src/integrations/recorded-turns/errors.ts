import { HoldfastError } from "../../model/errors.ts";
import type { Session } from "../../session/index.ts";
import { refusal } from "../refusal.ts";

/** `lacksTools`: the program has not registered its tools yet, and may have the right ones. */
export function callsPending({ id, openCalls }: Session, lacksTools = false): HoldfastError {
  const waiting = openCalls.map((call) => ({
    callId: call.callId,
    tool: call.tool,
    person: call.status === "waiting",
    why: call.why ?? "its outcome is not known yet",
  }));
  const calls = waiting.map(({ callId, tool, why }) => `${tool} ${callId} (${why})`).join(", ");
  return refusal(
    "SESSION_HAS_OPEN_CALLS",
    `session ${id}: the model is not asked while calls have no outcome: ${calls}`,
    lacksTools ? TOOLS_FIRST : howToSettle(waiting.map(({ person }) => person)),
    { session: id, waiting },
  );
}

export function outcomePending(
  { id, openCalls }: Session,
  callId: string,
  tool: string,
  why: string,
): HoldfastError {
  const call = openCalls.find((each) => each.callId === callId);
  return new HoldfastError("SESSION_HAS_OPEN_CALLS", `call ${callId} of ${tool} has no outcome yet: ${why}`, {
    hint: call
      ? `${howToSettle([call.status === "waiting"])} \`holdfast calls\` shows it.`
      : "Another call does the same at this moment, perhaps in another session: `holdfast calls` shows it. " +
        "When it has ended, run the same program again: it continues with that outcome.",
    data: { session: id, callId, tool, person: call?.status === "waiting" },
  });
}

const TOOLS_FIRST =
  "Make the tools (d.tools, d.tool) before the prompt: they settle these calls. " +
  "Or run the interrupted program again.";

/** A person is asked only about calls that the tools could not settle. */
function howToSettle(isForPerson: readonly boolean[]): string {
  const ways = "holdfast.calls.resolve, or `holdfast resolve`";
  if (!isForPerson.includes(true))
    return "Run the same program again: it settles them, and continues from here.";
  if (isForPerson.includes(false))
    return (
      `Answer those that wait for a person (${ways}), then run the same program again: ` +
      "it settles the others."
    );
  return `Answer them (${ways}), then run the same program again: it continues from here.`;
}

/**
 * `count`: messages of this prompt. `sameMessages`: the prefix shared with the last turn's prompt. `effects`:
 * calls that keep the run from branching.
 */
export function promptDiverged(
  session: string,
  turn: { readonly run: string; readonly position: number; readonly prompt: { readonly count: number } },
  count: number,
  sameMessages: number,
  effects: readonly string[] = [],
): HoldfastError {
  const { run, position, prompt } = turn;
  const where =
    sameMessages > 0
      ? `Its first ${sameMessages} messages are those of the turn before; the rest differs`
      : "It differs from the first message on";
  return refusal(
    "PROMPT_DIVERGED",
    `session ${session}: turn ${position} of run ${JSON.stringify(run)} is on record with another prompt ` +
      `(${prompt.count} messages, now ${count}). ${where}. The model was not asked`,
    effects.length > 0
      ? `A branch could repeat ${effects.join(", ")}. Give the same prompt, or use onDiverge: "adopt".`
      : "To resume, give the same prompt: no clock, no random ids, no changed system text. After a deploy, " +
          'use onDiverge: "adopt". For something new, use another run name.',
    { session, run, position, sameMessages },
  );
}

export function questionRepeated(
  session: string,
  run: string,
  position: number,
  earlier: number,
): HoldfastError {
  return refusal(
    "PROMPT_DIVERGED",
    `session ${session}: turn ${position} of run ${JSON.stringify(run)} ` +
      `has the prompt that turn ${earlier} answered`,
    "To retry, start the run again: it is answered from the record. To ask the same once more, use " +
      "another run name.",
    { session, run, position, earlier },
  );
}

export function questionAbandoned(session: string): HoldfastError {
  return new HoldfastError("STATE_STALE", `session ${session}: this question was aborted and asked again`, {
    hint: "Nothing of this answer was recorded. Use the answer of the later question.",
    data: { session },
  });
}

export function runCompacted(session: string, run: string): HoldfastError {
  return refusal(
    "PROMPT_DIVERGED",
    `session ${session}: run ${JSON.stringify(run)} was compacted away: ` +
      "it can neither be resumed nor answered from the record. The model was not asked",
    "A compaction ends the runs before it: keep their answers yourself, or read them in an earlier " +
      "version (session.versions, session.at). For something new, use another name.",
    { session, run },
  );
}
