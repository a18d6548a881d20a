// LangGraph's own checkpointer suite, on every store, without skipped tests.

import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { open } from "../../../src/open.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { storeSubjects } from "../../subjects.ts";

// The suite expects these as globals.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

for (const subject of storeSubjects()) {
  const opened = new Map<HoldfastSaver, Opened>();
  const initializer = {
    checkpointerName: `HoldfastSaver on ${subject.name}`,
    async createCheckpointer() {
      const made = await subject.open();
      const saver = new HoldfastSaver(await open(undefined, { store: made.store }));
      opened.set(saver, made);
      return saver;
    },
    async destroyCheckpointer(saver: HoldfastSaver) {
      await opened.get(saver)?.dispose();
      opened.delete(saver);
    },
    afterAll: () => subject.dispose(),
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
}
