export { landed, never, notYet, unsure } from "../../ledger/index.ts";
export { type Durable, type DurablePrompt, durable, type Query } from "./durable.ts";
export type { DurableOptions, EffectRule, ToolInput } from "./options.ts";
export type { SessionKey, SessionStoreEntry } from "./sdk-types.ts";
export { HoldfastSessionStore } from "./session-store.ts";
