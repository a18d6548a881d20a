import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCase } from "../../torture/cases/case.ts";
import { KILL_WHEN_SENT, killAt } from "../../torture/cases/failpoints.ts";
import { speakMeanwhile } from "../../torture/cases/person-meanwhile.ts";
import { runTwoResumers } from "../../torture/cases/resumers.ts";
import { countCalls, failAt, hasStrace, killBefore } from "../../torture/cases/system-calls.ts";
import { runZombie } from "../../torture/cases/zombies.ts";
import { SPEECH_MS } from "../../torture/families.ts";
import { foundBy, PLANTS } from "../../torture/planted-bugs.ts";
import { EXIT, scenario } from "../../torture/scenario.ts";
import { Workshop } from "../../torture/workshop.ts";

/** A sample of the cases of `npm run torture`. */

const LIMIT_MS = 180_000;
const HARMLESS = { fired: true, violations: [] };

let workshop: Workshop;
/** How often an undisturbed agent syncs. */
let syncs = 0;
beforeAll(async () => {
  workshop = await Workshop.open(["agent", "world"]);
  // This run also fills the compile cache for the others: a killed process leaves none.
  if (hasStrace()) syncs = (await countCalls(workshop, scenario("keyed"), workshop.layStore)).fsync;
});
afterAll(() => workshop.close());

/** Retries up to four times if the fault did not fire. */
async function until<Result>(
  isSetUp: (result: Result) => boolean,
  run: () => Promise<Result>,
): Promise<Result> {
  let result = await run();
  for (let turn = 0; turn < 4 && !isSetUp(result); turn++) result = await run();
  return result;
}

/** Retries: if the machine pauses longer than its short lease, a zombie may lose it before it is stopped. */
const asZombie = (name: string, point: string) =>
  until(
    ({ fired, code }) => fired || code !== EXIT.leaseLost,
    () => runZombie(workshop, scenario(name), point, "after the end"),
  );

describe.concurrent("killed in the middle of a call and run again, an agent neither loses nor doubles its effect", () => {
  /** Each script and each point once. The other combinations run only with HOLDFAST_FULL=1. */
  const more = [
    ["keyed", "call.executed"],
    ["fenced", "call.executed"],
    ["timed", "call.starts"],
  ] as const;
  const cases = [
    ...(process.env["HOLDFAST_FULL"] ? more : []),
    ["read", "message.appended:2"],
    ["keyed", "wave.issued"],
    ["fenced", "call.starts"],
    ["ask", "call.executed"],
    ["ask", "call.recorded"],
    ["fail", "call.executed"],
    ["write", "call.executed"],
    ["v1, v2, v1", "wave.issued:2"],
    ["four at once", "call.executed:2"],
    ["one after another", "message.appended:2"],
    ["once over two sessions", "call.executed"],
    ["once, given up", "call.executed"],
  ] as const;
  test.for(cases)("%s, killed at %s", { timeout: LIMIT_MS }, async ([name, point]) => {
    expect(await runCase(workshop, scenario(name), [killAt(point)])).toMatchObject(HARMLESS);
  });

  test("killed while the world works, so that the effect lands after the death", {
    timeout: LIMIT_MS,
  }, async () => {
    // A process that is killed too late already has its answer and proves nothing.
    const result = await until(
      ({ fired }) => fired,
      () => runCase(workshop, scenario("timed, lands when asked, slow answer"), [KILL_WHEN_SENT]),
    );
    expect(result).toMatchObject(HARMLESS);
  });

  test("killed again while it recovers", { timeout: LIMIT_MS }, async () => {
    const faults = [killAt("call.executed"), killAt("verify.answered")];
    expect(await runCase(workshop, scenario("fenced"), faults)).toMatchObject(HARMLESS);
  });
});

describe.concurrent("a zombie", () => {
  test("that wakes after a take-over writes and starts nothing, and ends with LEASE_LOST", {
    timeout: LIMIT_MS,
  }, async () => {
    const result = await asZombie("keyed", "wave.issued");
    expect(result).toMatchObject({ ...HARMLESS, code: EXIT.leaseLost });
  });

  test("whose effect was under way records its late answer and nothing else", {
    timeout: LIMIT_MS,
  }, async () => {
    const result = await asZombie("ask", "call.starts");
    expect(result).toMatchObject({ ...HARMLESS, code: EXIT.leaseLost });
  });

  test("is refused by a tool whose verify raised the fence", { timeout: LIMIT_MS }, async () => {
    const result = await asZombie("fenced", "call.starts");
    expect(result).toMatchObject({ ...HARMLESS, code: EXIT.leaseLost });
  });
});

test("two processes that resume the same session do its work once", { timeout: LIMIT_MS }, async () => {
  const result = await runTwoResumers(workshop, scenario("four at once"), killAt("call.executed"));
  expect(result).toMatchObject(HARMLESS);
});

test.for(["settle", "cancel", "prompt"] as const)(
  "a person's %s takes effect within a second in the process that holds the session",
  { timeout: LIMIT_MS },
  async (speech) => {
    // A machine may pause now and then, but not every time.
    let fastestMs = Number.POSITIVE_INFINITY;
    for (let turn = 0; turn < 4 && fastestMs >= SPEECH_MS; turn++) {
      const { tookMs, violations } = await speakMeanwhile(workshop, speech);
      expect(violations).toEqual([]);
      fastestMs = Math.min(fastestMs, tookMs);
    }
    expect(fastestMs).toBeLessThan(SPEECH_MS);
  },
);

describe.skipIf(!hasStrace())("with faults at system calls (skipped without strace)", () => {
  test("killed before a sync, an agent goes on where it was", { timeout: LIMIT_MS }, async () => {
    const fault = killBefore("fsync", Math.ceil(syncs / 2), workshop.layStore);
    expect(await runCase(workshop, scenario("keyed"), [fault])).toMatchObject(HARMLESS);
  });

  test.for([false, true])(
    "nothing is acknowledged after an I/O error (sticky: %s)",
    { timeout: LIMIT_MS },
    async (sticky) => {
      const fault = failAt("fsync", Math.ceil(syncs / 2), "EIO", sticky, workshop.layStore);
      expect(await runCase(workshop, scenario("keyed"), [fault])).toMatchObject(HARMLESS);
    },
  );
});

describe.concurrent("the checker finds planted bugs in real runs", () => {
  const names = [
    "issued after the effect",
    "unknown is retried",
    "no fence",
    "verify without a fence",
    "not yet taken for never",
    "key of a waiting call is free",
    "not yet judged by the time of the answer",
    "three acts answered before their COMMIT",
  ];
  const quick = PLANTS.filter(({ name, needsStrace }) => {
    return names.includes(name) && (hasStrace() || !needsStrace);
  });
  test.for(quick)("$name", { timeout: LIMIT_MS }, async (plant) => {
    const result = await until(
      ({ fired }) => fired,
      () => plant.run(workshop),
    );
    expect(foundBy(plant, result)).toMatchObject({ found: true });
  });
});
