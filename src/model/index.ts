/** The pure part: events, folds, state machines, canonical JSON, errors. No I/O, no clock, no randomness. */

export * from "./age.ts";
export * from "./budget.ts";
export * from "./call.ts";
export * from "./canonical-text.ts";
export * from "./cursor.ts";
export * from "./digest.ts";
export * from "./errors.ts";
export * from "./event.ts";
export * from "./facets.ts";
export * from "./goal/index.ts";
export * from "./iso-time.ts";
export * from "./json.ts";
export * from "./json-text.ts";
export { late } from "./late.ts";
export * from "./message.ts";
export * from "./message-shape.ts";
export * from "./names.ts";
export * from "./nearest.ts";
export * from "./plain-message.ts";
export * from "./plan.ts";
export * from "./sealed-store.ts";
export * from "./session-diff.ts";
export * from "./session-events.ts";
export * from "./session-kind.ts";
export * from "./session-state.ts";
export * from "./soon.ts";
export * from "./transcript.ts";
