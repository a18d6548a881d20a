/** Workers that cannot even be started. */

import { expect, test } from "vitest";
import { Holdfast, type SupervisorEvent } from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { supervise, type Work } from "../../src/supervisor/index.ts";

const LEASE_MS = 60_000;

test("the error is reported, and other workers are started", async () => {
  const data = memoryData();
  let nowMs = 0;
  const journal = () => new Journal({ store: openMemory({ data, clock: () => nowMs }), leaseMs: LEASE_MS });
  const dead = journal();
  for (const id of ["a", "b", "c"]) await new Holdfast(dead).session(id, { ttlMs: null });
  dead.leases.stop();
  nowMs += 10 * LEASE_MS;

  const stop = new AbortController();
  const ended: string[] = [];
  const troubles = new Set<string>();
  let isAsked = false;
  const start = (work: Work) => {
    if (work.kind === "session" && work.session === "a") return { command: [] };
    if (work.kind === "session" && work.session === "c") return { command: ["true"] };
    // The first question is whether the session needs a worker.
    if (isAsked) throw new Error("no idea");
    isAsked = true;
    return { command: [] };
  };
  const onEvent = (event: SupervisorEvent): void => {
    if (event.type === "error") troubles.add(`${event.doing}: ${event.error}`);
    if (event.type !== "worker.ended" || event.work.kind !== "session") return;
    ended.push(`${event.work.session} ${event.how}${event.why ? `: ${event.why.slice(0, 24)}` : ""}`);
    if (ended.length === 2) stop.abort();
  };
  await supervise(journal(), { signal: stop.signal, everyMs: 10, backoffMs: 60_000, start, onEvent });
  expect(ended.sort()).toEqual(["a died: it could not be started:", "c done"]);
  expect([...troubles]).toEqual(["starting session b: Error: no idea"]);
});
