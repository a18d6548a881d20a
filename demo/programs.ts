/**
 * Bundles the agent and the world as JavaScript before the demo. A restart then takes a fifth of a second
 * instead of one, so the viewer sees the recovery and not the loader.
 */

import { join } from "node:path";
import { linkModules, writePrograms } from "../torture/bundle.ts";

export async function buildPrograms(folder: string): Promise<void> {
  // `scripts/run.mjs` starts us in the root of the repository.
  const root = process.cwd();
  const program = (name: string): string => join(root, "demo", name);
  await writePrograms({ agent: program("agent.ts"), world: program("world.ts") }, folder);
  linkModules(folder);
}
