import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Orders the test files. Files of more than ten seconds run first, so that no worker idles at the end. Then
 * come files that start many processes: a spawn takes 2 ms in a small worker, and 40 ms in one of a gigabyte.
 * The rest follow by size.
 */
const FIRST = [
  "hooks/hooks.",
  "stores/files/random-kills.",
  "crash/random-kills.",
  "stores/postgres/conformance.",
  "demo/",
  "torture/faults.",
  "stores/postgres/faults.",
  "crash/system-call-kills.",
  "torture/crash-everywhere.",
  "mcp/server.",
  "mcp/proxy-kills.",
  "stores/files/system-call-kills.",
  "examples/examples.",
  "supervisor/workers.",
  "projections/goal-folder-processes.",
  "integrations/openai-agents/kills.",
  "torture/power-cut.",
  "fleet/",
  "cli/",
  "mcp/",
  "hooks/",
  "wiring/",
  "examples/",
];

class LongAndBusyFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = FIRST.findIndex((name) => moduleId.includes(`/test/${name}`));
      return place < 0 ? FIRST.length : place;
    };
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other));
  }
}

/** The tests of the AI SDK run once more with version 7, which needs Node 22. */
const AI_SDK_7 = new URL("test/integrations/ai-sdk/as-sdk-7.mjs", import.meta.url).href;

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/stores/postgres/global-setup.ts", "test/program-folder.ts", "test/state-home.ts"],
    pool: "forks",
    // Files share loaded modules: reloading the sources for each file took a third of all processor time. So
    // a test that changes its process (a variable, a clock, a failpoint) must restore it.
    isolate: false,
    // Node 24 loads our TypeScript sources directly, in a third of the time and without wrapping their
    // imports.
    experimental: { viteModuleRunner: !Reflect.get(process.features, "typescript") },
    sequence: { sequencer: LongAndBusyFirst },
    unstubEnvs: true,
    restoreMocks: true,
    // Closing an SQLite connection on Node 20 collects garbage, and helper threads would slow the other
    // worker. A larger young generation cuts the time of minor collections to a third.
    execArgv: [
      "--single-threaded-gc",
      "--min-semi-space-size=32",
      "--max-semi-space-size=64",
      ...(process.env["HOLDFAST_AI_SDK"] === "7" ? ["--import", AI_SDK_7] : []),
    ],
    // Tests mostly wait for child processes and disks, so two files in parallel pay off on any machine. Many
    // tests start processes, so each worker gets at least two processors if there are that many.
    maxWorkers: Math.max(2, Math.floor(availableParallelism() / 2)),
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
