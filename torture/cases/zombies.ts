/** A process is stopped, another takes over, then the first continues. */

import { readAcks } from "../acks.ts";
import { check, gather, type Violation } from "../checker/index.ts";
import { zombieIsHarmless } from "../checker/zombie.ts";
import { EXIT, type Scenario, SESSION } from "../scenario.ts";
import type { Workshop } from "../workshop.ts";
import { agentConfig, type CaseOptions, type CaseResult, runToTheEnd, startAgent } from "./case.ts";

/** Long enough for a slow machine to work in, short enough to wait for. */
const ZOMBIE_LEASE_MS = 1_000;

export type Wakes = "at the take-over" | "after the end";

/**
 * A tool that verifies by time assumes that nothing outlives its `settleMs`, so its zombies must wake at
 * once.
 */
export function wakesFor(scenario: Scenario): readonly Wakes[] {
  const isTimed = scenario.turns.flat().some((call) => call.tool === "timed");
  return isTimed ? ["at the take-over"] : ["at the take-over", "after the end"];
}

export function runZombie(
  workshop: Workshop,
  scenario: Scenario,
  point: string,
  wakes: Wakes,
  options: CaseOptions = {},
): Promise<CaseResult & { readonly code: number | null }> {
  return workshop.within(async (dir) => {
    const config = { ...agentConfig(workshop, dir, scenario, options), leaseMs: ZOMBIE_LEASE_MS };
    const first = startAgent(
      workshop,
      { ...config, stops: true, talks: true },
      { env: { HOLDFAST_FAILPOINT: point } },
    );
    const stopped = await first.event("stopped").then(
      () => true,
      () => false,
    );
    if (!stopped) return { fired: false, violations: [], runs: 1, code: (await first.ended).code };
    const acksBefore = readAcks(dir).length;
    const { writes } = await gather(dir, scenario, null);
    const storedBefore = new Set(writes.map(({ batch }) => batch));
    const second = startAgent(workshop, { ...agentConfig(workshop, dir, scenario, options), talks: true });
    // Until another process has the lease, the stopped one is the owner and no zombie. A process that finds
    // everything finished ends without a lease.
    await second
      .event(({ at, name }) => at === "granted" && name === `session/${SESSION}`)
      .catch(() => second.ended);
    if (wakes === "after the end") await second.ended;
    first.kill("SIGCONT");
    const ended = await first.ended;
    await second.ended;
    const last = await runToTheEnd(workshop, dir, scenario, options);
    const evidence = await gather(dir, scenario, last.code);
    // Calls of one wave pass their last check together: the Nth one means that N are about to be sent.
    const [name, count = "1"] = point.split(":");
    const underWay = name === "call.starts" ? Number(count) : 0;
    const violations: Violation[] = [
      ...check(evidence),
      ...zombieIsHarmless(evidence, { pid: first.pid, acksBefore, storedBefore, underWay }),
    ];
    // If nothing was left to write, a recorded answer is also a valid end.
    if (ended.code !== EXIT.leaseLost && ended.code !== EXIT.done) {
      const end = ended.code ?? ended.signal;
      const what = `the zombie ended with ${end} (expected LEASE_LOST): ${ended.stderr}`;
      violations.push({ invariant: "I7", what });
    }
    return { fired: true, violations, runs: 2 + last.runs, code: ended.code };
  });
}
