import { openMemoryForTest } from "./memory-subject.ts";
import { runStoreSuite } from "./run.ts";

runStoreSuite({ name: "memory", open: () => openMemoryForTest() });
