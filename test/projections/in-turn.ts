import { test } from "vitest";

const LASTING = ["sqlite", "files", "postgres"];

/**
 * For tests of files, which need little of a store: each runs in memory and on one durable store, in turn.
 * HOLDFAST_FULL=1: each on every store.
 */
export function testsInTurn(subject: { readonly name: string }): (name: string, run: () => unknown) => void {
  let turn = 0;
  return (name, run) => {
    const stores = ["memory", LASTING[turn++ % LASTING.length]];
    if (!process.env["HOLDFAST_FULL"] && !stores.includes(subject.name)) return;
    test(name, async () => {
      await run();
    });
  };
}
