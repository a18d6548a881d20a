/** The families of faults, each as a list of cases over scenarios. */

import { type CaseOptions, type Fault, runCase } from "./cases/case.ts";
import { KILL_WHEN_SENT, killAt, passedPoints } from "./cases/failpoints.ts";
import { type Speech, speakMeanwhile } from "./cases/person-meanwhile.ts";
import { runTwoResumers } from "./cases/resumers.ts";
import {
  countCalls,
  DURABILITY_CALLS,
  type DurabilityCall,
  FAILING_CALLS,
  failAt,
  killBefore,
} from "./cases/system-calls.ts";
import { runZombie, wakesFor } from "./cases/zombies.ts";
import type { Violation } from "./checker/index.ts";
import { SCENARIOS, scenario } from "./scenario.ts";
import type { Workshop } from "./workshop.ts";

export const FAMILIES = {
  failpoints: "SIGKILL at a failpoint",
  recovery: "SIGKILL, then SIGKILL while resuming",
  systemCalls: "SIGKILL at a system call",
  ioErrors: "EIO, ENOSPC",
  zombies: "SIGSTOP, take-over, SIGCONT",
  resumers: "SIGKILL, two resume at once",
  person: "a person speaks meanwhile",
} as const;

export type Family = keyof typeof FAMILIES;

export interface Outcome {
  readonly fired: boolean;
  readonly violations: readonly Violation[];
}

export interface Job {
  readonly family: Family;
  readonly scenario: string;
  readonly fault: string;
  /** Processes that are killed, and calls that fail, if the fault fires. */
  readonly kills: number;
  readonly ioFaults: number;
  run(): Promise<Outcome>;
}

/** Makes the jobs of one family. A `share` of 1 means all of them, 0.1 every tenth. */
export type Plan = (workshop: Workshop, share: number) => AsyncGenerator<Job>;

const job = (
  family: Family,
  { name }: { readonly name: string },
  fault: string,
  counts: { kills?: number; ioFaults?: number },
  run: () => Promise<Outcome>,
): Job => ({ family, scenario: name, fault, kills: counts.kills ?? 0, ioFaults: counts.ioFaults ?? 0, run });

/** Evenly spread, and at least one. */
function spread<Item>(items: readonly Item[], share: number): Item[] {
  if (share >= 1) return [...items];
  const step = 1 / share;
  const picked: Item[] = [];
  for (let at = Math.min(items.length - 1, Math.floor(step / 2)); at < items.length; at += step) {
    picked.push(items[Math.floor(at)] as Item);
  }
  return picked;
}

/** For a call that did not happen, the person alternates between the two answers. */
const otherwise = (index: number): CaseOptions => ({ otherwise: index % 2 === 0 ? "retry" : "failed" });

async function* failpoints(workshop: Workshop, share: number): AsyncGenerator<Job> {
  for (const script of SCENARIOS) {
    const points = spread(await passedPoints(workshop, script), share);
    for (const [index, point] of points.entries()) {
      const run = () => runCase(workshop, script, [killAt(point)], otherwise(index));
      yield job("failpoints", script, point, { kills: 1 }, run);
    }
    if (script.turns.flat().every((call) => call.tool === "read")) continue;
    const run = () => runCase(workshop, script, [KILL_WHEN_SENT]);
    yield job("failpoints", script, KILL_WHEN_SENT.name, { kills: 1 }, run);
  }
  for (const name of ["timed, lands when asked", "timed, lands when asked, slow answer"]) {
    const script = scenario(name);
    const run = () => runCase(workshop, script, [KILL_WHEN_SENT]);
    yield job("failpoints", script, KILL_WHEN_SENT.name, { kills: 1 }, run);
  }
}

const RECOVERED = [
  "keyed",
  "fenced",
  "timed",
  "ask",
  "fail",
  "write",
  "four at once",
  "one after another",
  "said twice",
  "a request",
  "once over two sessions",
];
const IN_THE_MIDDLE = ["wave.issued", "call.starts", "call.executed"];

/** False for late verify points: how often a verify is repeated depends on the machine's speed. */
const isCertain = (point: string): boolean => !/^verify\..*:([3-9]|\d\d+)$/.test(point);

async function* recovery(workshop: Workshop, share: number): AsyncGenerator<Job> {
  for (const script of RECOVERED.map(scenario)) {
    for (const first of spread(IN_THE_MIDDLE, share)) {
      const points = (await passedPoints(workshop, script, [killAt(first)])).filter(isCertain);
      for (const [index, second] of spread(points, share).entries()) {
        const faults = [killAt(first), killAt(second)];
        const run = () => runCase(workshop, script, faults, otherwise(index));
        yield job("recovery", script, `${first}, then ${second}`, { kills: 2 }, run);
      }
    }
  }
}

/** A store that must be created, and one that exists. */
const BEGINNINGS = (workshop: Workshop): [string, (dir: string) => void][] => [
  ["keyed", () => undefined],
  ["one after another", workshop.layStore],
  ["four sessions at once", workshop.layStore],
];

async function* systemCalls(workshop: Workshop, share: number): AsyncGenerator<Job> {
  for (const [name, prepare] of BEGINNINGS(workshop)) {
    const script = scenario(name);
    const counts = await countCalls(workshop, script, prepare);
    for (const [call, number] of spread(everyCall(DURABILITY_CALLS, counts), share)) {
      const fault = killBefore(call, number, prepare);
      yield job("systemCalls", script, fault.name, { kills: 1 }, () => runCase(workshop, script, [fault]));
    }
  }
}

async function* ioErrors(workshop: Workshop, share: number): AsyncGenerator<Job> {
  for (const [name, prepare] of BEGINNINGS(workshop)) {
    const script = scenario(name);
    const counts = await countCalls(workshop, script, prepare);
    const faults = everyCall(FAILING_CALLS, counts).flatMap(([call, number]): Fault[] => [
      failAt(call, number, "EIO", false, prepare),
      failAt(call, number, "EIO", true, prepare),
      failAt(call, number, "ENOSPC", false, prepare),
      failAt(call, number, "ENOSPC", true, prepare),
    ]);
    for (const fault of spread(faults, share)) {
      yield job("ioErrors", script, fault.name, { ioFaults: 1 }, () => runCase(workshop, script, [fault]));
    }
  }
}

function everyCall(
  calls: readonly DurabilityCall[],
  counts: Record<DurabilityCall, number>,
): [DurabilityCall, number][] {
  return calls.flatMap((call) => {
    return Array.from({ length: counts[call] }, (_, index): [DurabilityCall, number] => [call, index + 1]);
  });
}

const STOPPED = [
  "keyed",
  "fenced",
  "timed",
  "ask",
  "fail",
  "write",
  "four at once",
  "one after another",
  "a request",
];

async function* zombies(workshop: Workshop, share: number): AsyncGenerator<Job> {
  for (const script of STOPPED.map(scenario)) {
    const points = await passedPoints(workshop, script);
    const cases = wakesFor(script).flatMap((wakes) => points.map((point) => ({ wakes, point })));
    for (const { wakes, point } of spread(cases, share)) {
      const run = () => runZombie(workshop, script, point, wakes);
      yield job("zombies", script, `${point}, wakes ${wakes}`, {}, run);
    }
  }
}

async function* resumers(workshop: Workshop, share: number): AsyncGenerator<Job> {
  for (const script of ["keyed", "fenced", "timed", "ask", "four at once"].map(scenario)) {
    for (const point of spread([...IN_THE_MIDDLE, "message.appended:2", "call.recorded"], share)) {
      const run = () => runTwoResumers(workshop, script, killAt(point));
      yield job("resumers", script, point, { kills: 1 }, run);
    }
  }
}

/** A person's command takes effect within this time in the process that holds the session. */
export const SPEECH_MS = 1_000;

async function* person(workshop: Workshop, share: number): AsyncGenerator<Job> {
  const times = Math.max(1, Math.round(5 * share));
  for (const speech of ["settle", "cancel", "prompt"] as const satisfies Speech[]) {
    for (let time = 1; time <= times; time++) {
      const run = async (): Promise<Outcome> => {
        const { tookMs, violations } = await speakMeanwhile(workshop, speech);
        const late = { invariant: "I14", what: `${speech} took ${Math.round(tookMs)} ms to take effect` };
        return { fired: true, violations: tookMs <= SPEECH_MS ? violations : [...violations, late] };
      };
      yield job("person", { name: "a person meanwhile" }, `${speech}, time ${time}`, {}, run);
    }
  }
}

export const PLANS: Readonly<Record<Family, Plan>> = {
  failpoints,
  recovery,
  systemCalls,
  ioErrors,
  zombies,
  resumers,
  person,
};
