/** `holdfast/testing`: proof for agents and stores of your own, and a store for tests that needs no disk. */

export { FAILPOINTS, type Failpoint, failpoint } from "../failpoint.ts";
export { type MemoryData, type MemoryOptions, memoryData, openMemory } from "../stores/memory/index.ts";
export {
  type CrashEverywhereOptions,
  type CrashExperiment,
  type CrashFinding,
  type CrashReport,
  crashEverywhere,
} from "./crash-everywhere.ts";
export type { Opened, StoreCase, StoreSubject, StoreTopic } from "./store-suite/index.ts";
export { storeSuite } from "./store-suite/index.ts";
