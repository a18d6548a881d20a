/** `holdfast/langgraph`: a checkpointer for LangGraph on any store, and effects of nodes that happen once. */

export { durableNode, durableTool, EffectFailed, type EffectOptions, type Effects } from "./effects.ts";
export { ExactSerializer } from "./exact-serializer.ts";
export { HoldfastSaver, type HoldfastSaverOptions } from "./saver.ts";
