/** Why a question is not asked, or an answer not kept: what happened, and what to do about it. */

import { HoldfastError } from "../../model/errors.ts";
import { promptTextChanged, type Session, sessionCore } from "../../session/index.ts";
import type { PromptIdentity, PromptMark, TurnMark } from "./prompt-identity.ts";

/** `lacksTools`: this program may have tools for them that nobody has named yet. */
export function waitsForCalls({ id, openCalls }: Session, lacksTools = false): HoldfastError {
  const waiting = openCalls.map((call) => ({
    callId: call.id,
    tool: call.tool,
    person: call.status === "waiting",
    why: call.why ?? "its outcome is not known yet",
  }));
  const named = waiting.map(({ callId, tool, why }) => `${tool} ${callId} (${why})`).join(", ");
  return new HoldfastError(
    "SESSION_HAS_OPEN_CALLS",
    `session ${id}: the model is not asked while calls have no outcome: ${named}`,
    {
      hint: lacksTools ? TOOLS_FIRST : whatSettles(waiting.map(({ person }) => person)),
      data: { session: id, waiting },
    },
  );
}

/** For a tool whose call came to no outcome. */
export function noOutcomeYet(
  { id, openCalls }: Session,
  callId: string,
  tool: string,
  why: string,
): HoldfastError {
  const call = openCalls.find((each) => each.id === callId);
  return new HoldfastError("SESSION_HAS_OPEN_CALLS", `call ${callId} of ${tool} has no outcome yet: ${why}`, {
    hint: call
      ? `${whatSettles([call.status === "waiting"])} \`holdfast calls\` shows it.`
      : "Another call does the same at this moment, perhaps in another session: `holdfast calls` shows it. Once it has ended, run the same program again: it goes on with that outcome.",
    data: { session: id, callId, tool, person: call?.status === "waiting" },
  });
}

const TOOLS_FIRST =
  "Make the tools (d.tools, d.tool) before the prompt: they find out about these calls. Or run again what was interrupted.";

/** A person is asked only about what the tools themselves could not find out. */
function whatSettles(isForPerson: readonly boolean[]): string {
  const ways = "holdfast.calls.resolve, or `holdfast resolve`";
  if (!isForPerson.includes(true))
    return "Run the same program again: it finds out about them, and goes on from here.";
  if (isForPerson.includes(false)) {
    return `Answer those that wait for a person (${ways}), then run the same program again: it finds out about the others.`;
  }
  return `Answer them (${ways}), then run the same program again: it goes on from here.`;
}

export function diverged(
  session: string,
  mark: TurnMark,
  identity: PromptIdentity,
  before: PromptMark | null,
): HoldfastError {
  const same = before && identity.begins(before) ? before.count : 0;
  const where =
    same > 0
      ? `Its first ${same} messages are those of the turn before; what follows is different`
      : "It is different from its beginning on";
  return new HoldfastError(
    "PROMPT_DIVERGED",
    `session ${session}: turn ${mark.position} of run ${JSON.stringify(mark.run)} is on record with another prompt ` +
      `(${mark.prompt.count} messages, now ${identity.mark.count}). ${where}. The model was not asked`,
    {
      hint: "To resume, give the same prompt: no clock, no random ids, no changed system text. For something new, name a run of its own.",
      data: { session, run: mark.run, position: mark.position, sameMessages: same },
    },
  );
}

export function askedAgain(session: string, run: string, position: number, earlier: number): HoldfastError {
  return new HoldfastError(
    "PROMPT_DIVERGED",
    `session ${session}: the prompt of turn ${position} of run ${JSON.stringify(run)} is the one that turn ${earlier} has answered`,
    {
      hint: "To try again, begin the run again: it is answered from the record. To ask the same once more, name a run of its own.",
      data: { session, run, position, earlier },
    },
  );
}

/**
 * For a prompt whose id is on record. A codec may have changed what was stored (a redaction does), and then nobody can
 * tell whether the words are others: the id alone decides.
 */
export function mustSayTheSame(session: Session, prompt: string, said: string, stored: string): void {
  if (said !== stored && sessionCore(session).journal.payloads.hasNoCodec)
    throw promptTextChanged(session.id, prompt);
}

export function abandoned(session: string): HoldfastError {
  return new HoldfastError("STATE_STALE", `session ${session}: this question was given up and asked again`, {
    hint: "Nothing was recorded of this answer. Use the one of the later question.",
    data: { session },
  });
}

/** For a prompt that has an id and is not in the transcript: it is new, and was not compacted away. */
export function mustBeThere(session: Session, prompt: string): void {
  if (sessionCore(session).state.messageIds.has(prompt)) throw compacted(session.id, prompt);
}

export function compacted(session: string, run: string): HoldfastError {
  return new HoldfastError(
    "PROMPT_DIVERGED",
    `session ${session}: run ${JSON.stringify(run)} was compacted away: it can neither be resumed nor answered from the record. The model was not asked`,
    {
      hint: "A compaction ends the runs before it: keep their answers yourself, or read them in an earlier version (session.versions, session.at). For something new, use another name.",
      data: { session, run },
    },
  );
}
