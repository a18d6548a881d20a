/** `holdfast/langgraph`: checkpointer and long-term memory on any store, and effects that happen once. */

export type { EffectOptions, Effects } from "./effects.ts";
export { EffectFailed } from "./errors.ts";
export { HoldfastSaver, type HoldfastSaverOptions } from "./saver.ts";
export { ExactSerializer } from "./serializer.ts";
export { HoldfastStore } from "./store.ts";
export { durableNode, durableTool } from "./tools.ts";
