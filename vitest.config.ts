import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/postgres/global-setup.ts", "test/program-folder.ts"],
    pool: "forks",
    // Files share what is loaded: loading the sources anew for each took a third of all processor time. So a test that changes
    // something of its process (a variable, a clock, a failpoint) puts it back.
    isolate: false,
    unstubEnvs: true,
    restoreMocks: true,
    // Closing an SQLite connection on Node 20 collects garbage; threads that help with it take from the other worker.
    execArgv: ["--single-threaded-gc"],
    // Much of the time goes into waiting for child processes and disks, so two files at once pay on any machine. Many tests
    // start processes of their own, so no worker has less than two processors where there are that many.
    maxWorkers: Math.max(2, Math.floor(availableParallelism() / 2)),
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
