/** `holdfast/testing`: proof for stores of your own, and a store for tests that needs no disk. */

export { type MemoryData, type MemoryOptions, memoryData, openMemory } from "../stores/memory/index.ts";
export {
  type Opened,
  type StoreCase,
  type StoreSubject,
  type StoreTopic,
  storeSuite,
} from "./store-suite/index.ts";
