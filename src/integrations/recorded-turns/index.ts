/**
 * For integrations with frameworks that have their own agent loop: model answers that are recorded before they are handed
 * on, and tool calls that go through the ledger. How to use it:
 *
 *     const turns = new RecordedTurns(session, { run });        // one handle for the model and all tools of a program
 *     model:  const stored = await turns.ask({ prompt, heard, results }, async () => answerOf(await provider(prompt)));
 *             return responseFrom(stored);                      // always from the stored message
 *     stream: const turn = await turns.next({ prompt });        // turn.recorded, or stream, then turn.record or turn.failed
 *     tool:   const outcome = await turns.call({ tool, callId, args });   // completed, failed or waiting
 *             turns.know(name, takeUp);                         // for calls that another run has left open
 *
 * `recorded-turns.ts` and `recorded-calls.ts` open with their states, invariants and what a crash leaves.
 */

export type { TakeUp } from "./left-calls.ts";
export { appendPrompt, appendQueued, queuedWith } from "./queued-prompts.ts";
export {
  type Presented,
  type RecordedCall,
  type RecordedOutcome,
  resultValue,
  writtenResult,
} from "./recorded-calls.ts";
export { type Answer, type Question, RecordedTurns, type Turn } from "./recorded-turns.ts";
export { mustBeThere, mustSayTheSame, noOutcomeYet } from "./refusals.ts";
export { withSubAgent } from "./sub-agent-first.ts";
