/** `holdfast/langgraph`: a checkpointer for LangGraph on any store, and effects of nodes that happen once. */

export type { Effects } from "./effects.ts";
export { EffectFailed } from "./errors.ts";
export type { EffectOptions, HoldfastSaverOptions } from "./options.ts";
export { HoldfastSaver } from "./saver.ts";
export { ExactSerializer } from "./serializer.ts";
export { durableNode, durableTool } from "./tools.ts";
