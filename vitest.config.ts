import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * What takes more than ten seconds goes first, so that at the end no worker waits for another. Then what starts many processes: to
 * start one takes a worker 2 ms while it is small, and 40 when it has grown to a gigabyte. All else by its size.
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
  "crash/two-writers.",
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

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/stores/postgres/global-setup.ts", "test/program-folder.ts"],
    pool: "forks",
    // Files share what is loaded: loading the sources anew for each took a third of all processor time. So a test that changes
    // something of its process (a variable, a clock, a failpoint) puts it back.
    isolate: false,
    // Node 24 reads our sources as they are, in a third of the time and without wrapping whatever they import.
    experimental: { viteModuleRunner: !Reflect.get(process.features, "typescript") },
    sequence: { sequencer: LongAndBusyFirst },
    unstubEnvs: true,
    restoreMocks: true,
    // Closing an SQLite connection on Node 20 collects garbage; threads that help with it take from the other worker.
    // With room for what lives as long as one test, the little collections in between take a third of their time.
    execArgv: ["--single-threaded-gc", "--min-semi-space-size=32", "--max-semi-space-size=64"],
    // Much of the time goes into waiting for child processes and disks, so two files at once pay on any machine. Many tests
    // start processes of their own, so no worker has less than two processors where there are that many.
    maxWorkers: Math.max(2, Math.floor(availableParallelism() / 2)),
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
