/** SIGKILL at every failpoint that a program passes. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Scenario } from "../scenario.ts";
import type { Workshop } from "../workshop.ts";
import { agentConfig, type CaseOptions, type Fault, startAgent } from "./case.ts";

const logFile = (dir: string): string => join(dir, "failpoints.log");

/** The failpoints of one undisturbed run after `faults`, in order, as in `call.executed:2`. */
export function passedPoints(
  workshop: Workshop,
  scenario: Scenario,
  faults: readonly Fault[] = [],
  options: CaseOptions = {},
): Promise<string[]> {
  return workshop.within(async (dir) => {
    const config = agentConfig(workshop, dir, scenario, options);
    for (const fault of faults) {
      const before = fault.before?.(dir);
      const env = fault.env?.(dir);
      await startAgent(workshop, config, { ...(env && { env }), ...(before && { before }) }).ended;
    }
    const ended = await startAgent(workshop, config, { env: { HOLDFAST_FAILPOINT_LOG: logFile(dir) } }).ended;
    if (ended.hung) throw new Error(`${scenario.name}: the undisturbed run does not come to an end`);
    return existsSync(logFile(dir)) ? readFileSync(logFile(dir), "utf8").split("\n").filter(Boolean) : [];
  });
}

export function killAt(point: string): Fault {
  return {
    name: `kill at ${point}`,
    env: () => ({ HOLDFAST_FAILPOINT: point }),
    fired: (ended) => ended.signal === "SIGKILL" && !ended.hung,
  };
}

/**
 * Dies after the world has the request and before the agent reads the answer, so that the effect may land after
 * the death. The agent stops by itself: on a busy machine the harness would be too late.
 */
export const KILL_WHEN_SENT: Fault = {
  name: "kill while the world works",
  stopsWhenSent: true,
  during: async (child) => {
    await child.event("sent");
    child.kill("SIGKILL");
  },
  fired: (ended) => ended.signal === "SIGKILL" && !ended.hung,
};
