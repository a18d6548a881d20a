/**
 * The shared half of an integration with a framework that has its own agent loop. Model answers are recorded
 * before the framework sees them, and tool calls go through the ledger. Make one handle for the model and all
 * tools of a program:
 *
 *     const turns = new RecordedTurns(session, { run });
 *
 * Model: ask through `turns`, and build the framework's answer from the stored message, also the first time:
 *
 *     const question = { prompt, newMessages, outsideResults };
 *     const stored = await turns.ask(question, async () => toAnswer(await provider(prompt)));
 *     return fromStored(stored);
 *
 * For a stream use `turns.next(question)`. If `turn.recorded` is there, replay it. Otherwise pass text on,
 * buffer every part that mentions a tool call, and end with `turn.record`, or `turn.failed` if the stream
 * breaks.
 *
 * Tools: replace each tool's function by one that runs `turns.call({ tool, callId, args })`:
 *
 *     completed ──▶ return the value
 *     failed    ──▶ throw `ToolCallFailed`, so that the framework reports the failure to the model
 *     waiting   ──▶ throw `outcomePending(…)`, which ends the program
 *
 * Register each tool with `turns.registerTool(name, resume)`, so that calls of a killed run are resumed.
 * Refuse tools that did not come through the handle: a crash could run their calls twice.
 *
 * Prompt: append it with `appendPrompt`, and name the run after it: `turns.begin(prompt.id)`. See also
 * docs/guides/add-an-integration.md.
 */

export {
  type RecordedCall,
  type RecordedOutcome,
  type RenderedResult,
  type ResumeCall,
  resultValue,
} from "./calls.ts";
export { outcomePending } from "./errors.ts";
export { appendPrompt, appendQueued, findPrompt, queuedWith } from "./prompts.ts";
export { approvalReason, argsOf, CONTEXT, callContext, ledgerTool, ToolCallFailed } from "./tools.ts";
export { type Answer, type Question, RecordedTurns, type Turn } from "./turns.ts";
