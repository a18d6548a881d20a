/** A `warn` callback that throws: it must not end the process, and the warning is not lost. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "../journal/places.ts";

const unhandled: unknown[] = [];
const warned: string[] = [];
const onUnhandled = (error: unknown): void => void unhandled.push(error);
const onWarning = (error: Error): void => void warned.push(error.message);

beforeEach(() => {
  unhandled.length = 0;
  warned.length = 0;
  process.on("unhandledRejection", onUnhandled);
  process.on("warning", onWarning);
});

afterEach(() => {
  process.off("unhandledRejection", onUnhandled);
  process.off("warning", onWarning);
});

test.each([
  ["throws", () => true],
  ["answers with a promise that fails", () => false],
])("a warn that %s in a run's background refresh does not affect the run", async (_how, throwsAtOnce) => {
  let isDown = false;
  let turns = 0;
  let told = (): void => undefined;
  const heard = new Promise<void>((resolve) => {
    told = resolve;
  });
  const store = altered(openMemory(), {
    read: (read, request) => (isDown ? Promise.reject(new Error("the disk is away")) : read(request)),
  });
  const warn = (): unknown => {
    told();
    const complaint = new Error("the log server is away");
    if (throwsAtOnce()) throw complaint;
    return Promise.reject(complaint);
  };
  const holdfast = new Holdfast(new Journal({ store, warn }));
  const session = await holdfast.session("alpha");
  const result = await session.run({
    prompt: "go",
    model: async () => {
      // A prompt from outside makes the run refresh, and the store cannot be read.
      if (turns++ === 0) await holdfast.sessions.prompt("alpha", { text: "and more" }, { by: "web" });
      isDown = turns === 1;
      await heard;
      isDown = false;
      return { message: { text: "done" } };
    },
  });
  expect(result.status).toBe("done");
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
  expect(warned).toEqual(expect.arrayContaining(["the disk is away", "the log server is away"]));
  await session.close();
});
