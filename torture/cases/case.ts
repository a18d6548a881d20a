/**
 * One case: the program meets a fault, is run again until it ends, and the three records are compared.
 *
 *     first run, with the fault ──▶ (second run, with another) ──▶ run without faults ──▶ done ──▶ check
 *                                                                     ▲     └─waits─▶ a person answers ─┐
 *                                                                     └─────────────────────────────────┘
 */

import { check, gather, type Violation } from "../checker/index.ts";
import { answerAll, type WhenNothingHappened } from "../person.ts";
import { Child, type Ended, type StartOptions } from "../processes.ts";
import { type AgentConfig, EXIT, LONG_LEASE_MS, type Scenario } from "../scenario.ts";
import type { Workshop } from "../workshop.ts";

/** One run of the program, and its fault. */
export interface Fault {
  readonly name: string;
  /** Environment of the process. */
  readonly env?: (dir: string) => Record<string, string>;
  /** Words before `node` on the command line, such as a tracer. */
  readonly before?: (dir: string) => readonly string[];
  /** The process stops as soon as the world has a request. */
  readonly stopsWhenSent?: true;
  /** Acts of the harness while the process runs. */
  readonly during?: (child: Child) => Promise<void>;
  /** Whether the fault fired; otherwise the case proves nothing. */
  readonly fired: (ended: Ended, dir: string) => boolean;
  /** A further check that the fault makes possible. */
  readonly check?: (dir: string) => Violation[];
}

export interface CaseOptions {
  readonly plant?: string;
  readonly otherwise?: WhenNothingHappened;
  readonly leaseMs?: number;
}

export interface CaseResult {
  readonly fired: boolean;
  readonly violations: readonly Violation[];
  /** How often the program was run in total. */
  readonly runs: number;
}

const MOST_RUNS = 12;
const LIMIT_MS = 40_000;

export function runCase(
  workshop: Workshop,
  scenario: Scenario,
  faults: readonly Fault[],
  options: CaseOptions = {},
): Promise<CaseResult> {
  return workshop.within(async (dir) => {
    let fired = true;
    let runs = 0;
    const violations: Violation[] = [];
    for (const fault of faults) {
      const ended = await runAgent(workshop, dir, scenario, options, fault);
      runs++;
      fired &&= fault.fired(ended, dir);
      violations.push(...hanging(ended), ...(fault.check?.(dir) ?? []));
    }
    if (!fired) return { fired, violations: [], runs };
    const last = await runToTheEnd(workshop, dir, scenario, options);
    violations.push(...check(await gather(dir, scenario, last.code)));
    return { fired, violations, runs: runs + last.runs };
  });
}

export async function runToTheEnd(
  workshop: Workshop,
  dir: string,
  scenario: Scenario,
  options: CaseOptions,
): Promise<{ code: number | null; runs: number }> {
  let code: number | null = null;
  for (let runs = 1; runs <= MOST_RUNS; runs++) {
    const ended = await runAgent(workshop, dir, scenario, options);
    code = ended.code;
    if (code === EXIT.done) return { code, runs };
    if (code === EXIT.waiting) {
      const answered = await answerAll(dir, workshop.world, options.otherwise ?? "retry");
      if (answered === 0) return { code, runs };
    } else if (ended.hung || runs >= 3) return { code, runs };
  }
  return { code, runs: MOST_RUNS };
}

const UNDISTURBED = { stops: false, stopsWhenSent: false, talks: false, gated: false };

export function agentConfig(
  workshop: Workshop,
  dir: string,
  scenario: Scenario,
  options: CaseOptions,
): AgentConfig {
  const { plant = null, leaseMs = LONG_LEASE_MS } = options;
  return { dir, world: workshop.world, scenario, leaseMs, plant, ...UNDISTURBED };
}

export function startAgent(
  workshop: Workshop,
  config: AgentConfig,
  options: StartOptions & { before?: readonly string[] } = {},
): Child {
  const line = [...(options.before ?? []), process.execPath, workshop.bundle.agent, JSON.stringify(config)];
  return new Child(line[0] as string, line.slice(1), options);
}

function runAgent(
  workshop: Workshop,
  dir: string,
  scenario: Scenario,
  options: CaseOptions,
  fault?: Fault,
): Promise<Ended> {
  const talks = fault?.during !== undefined;
  const stopsWhenSent = fault?.stopsWhenSent ?? false;
  const config = { ...agentConfig(workshop, dir, scenario, options), talks, stopsWhenSent };
  const child = startAgent(workshop, config, {
    limitMs: LIMIT_MS,
    ...(fault?.env && { env: fault.env(dir) }),
    ...(fault?.before && { before: fault.before(dir) }),
  });
  // If the process ends too early, `fired` reports it.
  fault?.during?.(child).catch(() => undefined);
  return child.ended;
}

function hanging(ended: Ended): Violation[] {
  return ended.hung ? [{ invariant: "I14", what: "the program hangs after the fault" }] : [];
}
