/** `status` and `mcp` with plain options, which are read without commander: agents wait for both. */

import type { Options } from "./command.ts";

/** False if commander must read the options: it answers the same, or says what is wrong. */
export async function takeFastPath([command, ...args]: readonly string[]): Promise<boolean> {
  if (command === "status") {
    const options = plainOptions(args, ["store", "namespace", "goal"], ["json", "line"]);
    if (options === null) return false;
    const { showStatus } = await import("./status.ts");
    await showStatus(options);
    return true;
  }
  const options = plainOptions(args, ["store", "namespace", "goal", "by", "role"]);
  if (options === null) return false;
  const { serveAgents } = await import("./mcp-command.ts");
  await serveAgents(options);
  return true;
}

/** Reads `--goal checkout`, `--goal=checkout`, `--json`; else null: see `status-options.test.ts`. */
function plainOptions(
  args: readonly string[],
  names: readonly string[],
  switches: readonly string[] = [],
): Options | null {
  const options: Record<string, string | true> = {};
  for (let index = 0; index < args.length; index++) {
    const [, name = "", value] = /^--([a-z]+)(?:=(.*))?$/s.exec(args[index] ?? "") ?? [];
    if (switches.includes(name) && value === undefined) options[name] = true;
    else if (names.includes(name)) {
      const text = value ?? args[++index];
      if (text === undefined || text === "") return null;
      options[name] = text;
    } else return null;
  }
  return options;
}
