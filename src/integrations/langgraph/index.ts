/** `holdfast/langgraph`: a checkpointer for LangGraph on any store, and effects of nodes that happen once. */

export { durableNode, durableTool, EffectFailed, type Effects } from "./effects.ts";
export { ExactSerializer } from "./exact-serializer.ts";
export type { EffectOptions } from "./inline-tool.ts";
export { HoldfastSaver, type HoldfastSaverOptions } from "./saver.ts";
