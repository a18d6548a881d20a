/**
 * The shared half of an integration with a framework that has its own agent loop. Model answers are recorded
 * before the framework sees them, and tool calls go through the ledger. One handle, `RecordedTurns`, serves
 * the model and all tools of a program. The guide is docs/guides/add-an-integration.md.
 *
 *  - Model: ask through `turns.ask`, or `turns.next` for a stream, and build the framework's answer from the
 *    stored message, also the first time.
 *  - Tools: run each call with `turns.call`, register each tool with `turns.registerTool`, and refuse tools
 *    that did not come through the handle: a crash could run their calls twice.
 *  - Prompt: append it with `appendPrompt`, and name the run after it: `turns.begin(prompt.id)`.
 */

export type { RecordedCall, RecordedOutcome, RenderedResult, ResumeCall, WhileWaiting } from "./calls.ts";
export { resultValue, storedValue } from "./calls.ts";
export { outcomePending } from "./errors.ts";
export { isOutcome, outcomesDue } from "./outcomes.ts";
export { appendPrompt, appendQueued, findPrompt, queuedWith, queuePrompt } from "./prompts.ts";
export { argsOf, CONTEXT, callContext, ledgerTool, ToolCallFailed } from "./tools.ts";
export { type Answer, type OnDiverge, type Question, RecordedTurns, type Turn } from "./turns.ts";
