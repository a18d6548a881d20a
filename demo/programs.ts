/**
 * The agent and the world as plain JavaScript, made once before the show: a restart then costs a fifth of a second
 * instead of one, and what is seen is the recovery, not the loader.
 */

import { join } from "node:path";
import { linkModules, writePrograms } from "../torture/bundle.ts";

export async function buildPrograms(folder: string): Promise<void> {
  // Where `scripts/run.mjs` has put us.
  const root = process.cwd();
  const program = (name: string): string => join(root, "demo", name);
  await writePrograms({ agent: program("agent.ts"), world: program("world.ts") }, folder);
  linkModules(folder);
}
