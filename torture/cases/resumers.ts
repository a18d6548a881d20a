/** Two processes resume the same session at the same moment, with leases so short that they may lose them. */

import { check, gather } from "../checker/index.ts";
import { EXIT, type Scenario } from "../scenario.ts";
import type { Workshop } from "../workshop.ts";
import {
  agentConfig,
  type CaseOptions,
  type CaseResult,
  type Fault,
  runToTheEnd,
  startAgent,
} from "./case.ts";

const ALLOWED: readonly (number | null)[] = [EXIT.done, EXIT.waiting, EXIT.leaseLost, EXIT.held];

export function runTwoResumers(
  workshop: Workshop,
  scenario: Scenario,
  fault: Fault,
  options: CaseOptions = {},
): Promise<CaseResult> {
  return workshop.within(async (dir) => {
    const config = agentConfig(workshop, dir, scenario, options);
    const env = fault.env?.(dir);
    const harmed = await startAgent(workshop, config, env ? { env } : {}).ended;
    const fired = fault.fired(harmed, dir);
    const hasty = { ...config, leaseMs: 300 };
    const both = await Promise.all([startAgent(workshop, hasty).ended, startAgent(workshop, hasty).ended]);
    const last = await runToTheEnd(workshop, dir, scenario, options);
    const violations = check(await gather(dir, scenario, last.code));
    for (const { code, stderr } of both) {
      if (!ALLOWED.includes(code))
        violations.push({ invariant: "I14", what: `a resumer ended with ${code}: ${stderr}` });
    }
    return { fired, violations, runs: 3 + last.runs };
  });
}
