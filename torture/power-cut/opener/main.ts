/**
 * Opens images of a disk, one per line of standard input, and answers with the problems of each. It closes
 * none of them: a fresh process replaces it before it runs out of descriptors.
 */

import { join } from "node:path";
import { createInterface } from "node:readline";
import { sha256 } from "../../../src/model/digest.ts";
import type { Store } from "../../../src/store.ts";
import { openStore } from "../../store-under-test.ts";
import type { Promised } from "../writer/main.ts";

export interface OpenRequest {
  readonly folder: string;
  readonly promised: readonly Promised[];
}

export interface Opened {
  readonly problems: readonly string[];
  /** The store could not be opened or read at all. */
  readonly isRefused: boolean;
}

const namespace = "default";

async function opened({ folder, promised }: OpenRequest): Promise<Opened> {
  try {
    const store = await openStore(join(folder, "store"));
    const problems = (await store.check()).map(({ where, what }) => `${where}: ${what}`);
    return { problems: [...problems, ...(await missing(store, promised))], isRefused: false };
  } catch (error) {
    return { problems: [`it cannot be opened: ${(error as Error).message}`], isRefused: true };
  }
}

async function missing(store: Store, promised: readonly Promised[]): Promise<string[]> {
  const found: string[] = [];
  const leases = await store.list<"leases">({ of: "leases", namespace, limit: 100 });
  const writes = new Map<string, number>();
  for (const stream of ["session/a", "session/b", "session/c"]) {
    const page = await store.read({ namespace, stream, after: 0, limit: 1_000 });
    for (const { first, batch, sum } of page.writes) writes.set(`${stream} ${first} ${batch}`, sum);
  }
  for (const each of promised) {
    if ("stream" in each) {
      const { stream, first, batch, sum } = each;
      if (writes.get(`${stream} ${first} ${batch}`) !== sum) found.push(`${stream} ${first} is lost`);
    } else if ("artifact" in each) {
      const blob = await store.get({ of: "artifact", namespace, hash: each.artifact });
      if (!blob || sha256(blob.payload) !== each.artifact) found.push(`artifact ${each.artifact} is lost`);
    } else if (!leases.rows.some((lease) => lease.name === each.lease && lease.token >= each.token)) {
      found.push(`the grant of ${each.lease} is lost`);
    }
  }
  return found;
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await opened(JSON.parse(line) as OpenRequest);
  console.log(JSON.stringify({ at: "opened", ...answer }));
}
process.exit(0);
