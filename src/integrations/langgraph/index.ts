/** `holdfast/langgraph`: a checkpointer for LangGraph on any store, and effects of nodes that happen once. */

export type { EffectOptions, Effects } from "./effects.ts";
export { EffectFailed } from "./errors.ts";
export { HoldfastSaver, type HoldfastSaverOptions } from "./saver.ts";
export { ExactSerializer } from "./serializer.ts";
export { durableNode, durableTool } from "./tools.ts";
