/**
 * `npm run bench`: every promise about speed as a ratio to the bare driver, measured in the same run on the
 * same disk. `-- --json` prints one object and nothing else. Names of measures or their beginnings run only
 * those: `-- loadVsRaw`, `-- --only ui`. Exits with 1 if a bar is missed.
 */

import { appendFlatness } from "./append-flatness.ts";
import { appendVsRaw } from "./append-vs-raw.ts";
import { diskVsRaw } from "./disk-vs-raw.ts";
import { groupCommitVsRaw } from "./group-commit-vs-raw.ts";
import { hookVsNode, touchedVsNode } from "./hook-vs-node.ts";
import { ledgerVsTwoCommits } from "./ledger-vs-two-commits.ts";
import { loadVsRaw } from "./load-vs-raw.ts";
import { mcpVsNode } from "./mcp-vs-node.ts";
import { judge, type Measure, type Result } from "./measure.ts";
import { oldVersionVsRaw } from "./old-version-vs-raw.ts";
import { postgresVsRaw } from "./postgres-vs-raw.ts";
import { lineOf } from "./report.ts";
import { Scratch } from "./scratch.ts";
import { statusVsNode } from "./status-vs-node.ts";
import { turnsPerSecond } from "./turns-per-second.ts";
import { uiFirstPaint, uiScrolling } from "./ui-page.ts";

const MEASURES: readonly Measure[] = [
  appendVsRaw,
  appendFlatness,
  diskVsRaw,
  loadVsRaw,
  oldVersionVsRaw,
  groupCommitVsRaw,
  ledgerVsTwoCommits,
  postgresVsRaw,
  statusVsNode,
  hookVsNode,
  touchedVsNode,
  mcpVsNode,
  turnsPerSecond,
  uiFirstPaint,
  uiScrolling,
];

async function main(args: readonly string[]): Promise<void> {
  const asJson = args.includes("--json");
  const wanted = args.filter((arg) => !arg.startsWith("--"));
  const unknown = wanted.filter((word) => !MEASURES.some(({ name }) => name.startsWith(word)));
  if (unknown.length > 0) throw new Error(`no such measure: ${unknown.join(", ")}`);
  const isWanted = (name: string): boolean => wanted.some((word) => name.startsWith(word));
  const measures = MEASURES.filter(({ name }) => wanted.length === 0 || isWanted(name));
  const results: Record<string, Result> = {};
  const scratch = new Scratch();
  try {
    for (const measure of measures) {
      const result = judge(measure, await measure.run(scratch));
      results[measure.name] = result;
      if (!asJson) console.log(lineOf(measure, result));
    }
  } finally {
    await scratch.remove();
  }
  if (asJson) console.log(JSON.stringify(results));
  if (Object.values(results).some(({ ok }) => !ok)) process.exitCode = 1;
}

await main(process.argv.slice(2));
