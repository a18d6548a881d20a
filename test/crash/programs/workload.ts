// The same acts every time, so that the n-th system call of one run is the n-th of the next. Arguments: the
// store's file, the file for acknowledgements.

import { Journal, Lease, type Log, linkIn, payloadSum } from "../../../src/journal/index.ts";
import type { Guard, Head } from "../../../src/store.ts";
import { openSqlite } from "../../../src/stores/sqlite/index.ts";
import { acknowledgedWrite, acknowledgeTo } from "../acknowledgements.ts";
import { type Note, type Tally, tallyKind } from "../tally.ts";

const [path = "", file = ""] = process.argv.slice(2);
const say = acknowledgeTo(file);

const store = await openSqlite({ path });
const journal = new Journal({ store, leaseMs: 600_000 });

function notes(batch: string, length: number, size = length, extra: Partial<Note> = {}): Note[] {
  const text = "x".repeat(900);
  return Array.from({ length }, (_, index) => ({ id: `${batch}-${index}`, batch, size, text, ...extra }));
}

async function append(
  log: Log<Tally>,
  batch: string,
  made: readonly Note[],
  guards: readonly Guard[] = [],
): Promise<void> {
  const events = made.map((data) => ({ type: "note", data }));
  const outcome = await log.commit(() => ({ events, result: null, guards }));
  if (outcome.outcome !== "ok") throw new Error(`append answered ${outcome.outcome}`);
  say({ of: "append", batch, writes: [acknowledgedWrite(log.stream, outcome.head.seq, made)] });
}

async function appendPair(id: string, expected: readonly [Head, Head]): Promise<void> {
  const streams = ["tally/left", "tally/right"] as const;
  const made = streams.map((stream) =>
    notes(id, 2, 4).map((data) => ({ ...data, id: `${stream}-${data.id}` })),
  );
  const writes = streams.map((stream, index) => {
    const payload = JSON.stringify(made[index]?.map((data) => ({ type: "note", v: 1, at: 0, data })));
    const expect = expected[index] as Head;
    return { stream, expect, count: 2, payload, codec: null, sum: payloadSum(payload), at: 0 };
  });
  const outcome = await store.append({ id, namespace: journal.namespace, writes });
  if (outcome.outcome !== "ok") throw new Error(`append answered ${outcome.outcome}`);
  const said = outcome.heads.map(({ seq }, index) =>
    acknowledgedWrite(streams[index] as string, seq, made[index] as Note[]),
  );
  say({ of: "append", batch: id, writes: said });
}

const alone = await journal.open(tallyKind, "alone");
await append(alone, "first", notes("first", 1));

const lease = await journal.leases.take("tally/alone", "workload", { label: "workload", waitMs: 0 });
if (!(lease instanceof Lease)) throw new Error("somebody holds the lease");
say({ of: "lease", name: lease.name, token: lease.token });
await append(alone, "guarded", notes("guarded", 2), [lease.guard]);

const none = { generation: 1, seq: 0 };
await appendPair("pair", [none, none]);

const hash = await journal.putArtifact(new Uint8Array(9_000).fill(7));
say({ of: "artifact", hash });
await append(alone, "with artifact", notes("with artifact", 1, 1, { artifact: hash }));
const place = { namespace: journal.namespace, stream: "tally/alone", seq: 4 };
const { writes } = await store.read({ ...place, after: 3 });
const link = linkIn(writes.at(-1)?.batch ?? "");
await store.put({
  of: "snapshot",
  ...place,
  generation: 1,
  fold: "tally@1",
  ...journal.payloads.encodeSnapshot(JSON.stringify({ link, state: alone.state }), place),
});

// Erasing copies the WAL into the file and cuts it: a checkpoint in the middle of the work.
const brief = await journal.open(tallyKind, "brief");
await append(brief, "erased", notes("erased", 1));
say({ of: "removing", stream: brief.stream });
await journal.remove(brief.stream, { erase: true });
say({ of: "removed", stream: brief.stream });

const two = { generation: 1, seq: 2 };
await appendPair("pair after the checkpoint", [two, two]);
await append(alone, "last", notes("last", 1, 1, { claim: "key" }), [lease.guard]);
say({ of: "claim", key: "key", stream: "tally/alone", seq: 5 });
await lease.release();
await store.close();
process.exit(0);
