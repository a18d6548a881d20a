/** `holdfast/claude-agent-sdk`: `durable` for the SDK's `query()`, and its `SessionStore` on any store. */

export { landed, never, notYet, unsure } from "../../ledger/index.ts";
export { type Durable, type DurablePrompt, durable, type Query } from "./durable.ts";
export type { DurableOptions, EffectRule, ToolInput } from "./options.ts";
export type {
  HookInput,
  HookOutput,
  QueryOptions,
  SdkMessage,
  SessionKey,
  SessionStoreEntry,
} from "./sdk-types.ts";
export { HoldfastSessionStore } from "./session-store.ts";
