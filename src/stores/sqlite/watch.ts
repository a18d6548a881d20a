/** Watchers of one file. Commits of other processes show in `PRAGMA data_version`, which says only that, not where. */

import { Watchers } from "../kit/index.ts";
import type { Connection } from "./driver.ts";

type Read = <Result>(act: (connection: Connection) => Result) => Promise<Result>;

/** A change by another process is announced to everyone: a spurious hint is allowed, a missing one is not. */
export function changesOfOthers(read: Read): Watchers {
  let known: number | null = null;
  const watchers: Watchers = new Watchers({
    started: () => {
      known = null;
      void watchers.pollNow();
    },
    poll: async () => {
      const version = await read((connection) => connection.number("PRAGMA data_version"));
      if (known !== null && version !== known) watchers.notifyAll();
      known = version;
    },
  });
  return watchers;
}
