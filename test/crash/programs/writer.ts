// Writes in five ways at once until it is killed, and records acknowledgements. Arguments: the store's file,
// the file for acknowledgements, a name for this run, and `eager` for the planted bug: acknowledging too
// early.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { Journal, Lease, type Log, payloadSum } from "../../../src/journal/index.ts";
import type { Batch, Guard, Head } from "../../../src/store.ts";
import { openSqlite } from "../../../src/stores/sqlite/index.ts";
import { type Acknowledgement, acknowledgedWrite, acknowledgeTo } from "../acknowledgements.ts";
import { type Note, type Tally, tallyKind } from "../tally.ts";

const [path = "", file = "", life = "", mode = ""] = process.argv.slice(2);
const isEager = mode === "eager";
const acknowledge = acknowledgeTo(file);
let hasSaid = false;

process.stdout.write("ready\n");
process.stdin.once("end", () => process.exit(0));
await once(process.stdin, "data");
process.stdin.unref();
process.stdout.write("opening\n");

const store = await openSqlite({ path });
const journal = new Journal({ store, warn: end });
let count = 0;

await Promise.all([alone(), pairs(), files(), claims(), removals()]).catch(end);

function end(error: unknown): void {
  process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
  process.exit(1);
}

function say(said: Acknowledgement): void {
  acknowledge(said);
  if (!hasSaid) process.stdout.write("working\n");
  hasSaid = true;
}

function notes(batch: string, length: number, size = length, extra: Partial<Note> = {}): Note[] {
  return Array.from({ length }, () => {
    const bytes = Math.random() < 0.03 ? 30_000 : Math.ceil(Math.random() * 1_500);
    return { id: `${life}-${++count}`, batch, size, text: randomBytes(bytes).toString("base64"), ...extra };
  });
}

function some(most: number): number {
  return Math.ceil(Math.random() * most);
}

/** Appends through a log, and records the log's outcome. */
async function append(
  log: Log<Tally>,
  batch: string,
  made: readonly Note[],
  guards: readonly Guard[] = [],
): Promise<number> {
  const writes = (last: number) => [acknowledgedWrite(log.stream, last, made)];
  if (isEager) say({ of: "append", batch, writes: writes(log.head.seq + made.length) });
  const events = made.map((data) => ({ type: "note", data }));
  const outcome = await log.commit(() => ({ events, result: null, guards }));
  if (outcome.outcome !== "ok") throw new Error(`append answered ${outcome.outcome}`);
  if (!isEager) say({ of: "append", batch, writes: writes(outcome.head.seq) });
  return outcome.head.seq;
}

/** One stream, under a lease that the last run did not release. */
async function alone(): Promise<void> {
  const lease = await journal.leases.take("tally/alone", journal.newId(), { label: life, waitMs: 5_000 });
  if (!(lease instanceof Lease)) throw new Error("a dead process still holds the lease");
  say({ of: "lease", name: lease.name, token: lease.token });
  const log = await journal.open(tallyKind, "alone");
  if (log.state.count !== log.head.seq) throw new Error("the fold has another length than the log");
  for (;;) {
    const batch = journal.newId();
    await append(log, batch, notes(batch, some(3)), [lease.guard]);
  }
}

/** Batches over two streams. */
async function pairs(): Promise<never> {
  const streams = ["tally/left", "tally/right"];
  let heads: readonly Head[] = await Promise.all(streams.map(async (name) => (await journal.row(name)).head));
  for (;;) {
    const id = journal.newId();
    const counts = streams.map(() => some(2));
    const size = counts.reduce((sum, each) => sum + each, 0);
    const made = counts.map((length) => notes(id, length, size));
    const writes = streams.map((stream, index) => {
      const at = Date.now();
      const payload = JSON.stringify(made[index]?.map((data) => ({ type: "note", v: 1, at, data })));
      const expect = heads[index] as Head;
      const sum = payloadSum(payload);
      return { stream, expect, count: counts[index] as number, payload, codec: null, sum, at };
    });
    const batch: Batch = { id, namespace: journal.namespace, writes };
    const said = writes.map(({ stream, expect, count: length }, index) =>
      acknowledgedWrite(stream, expect.seq + length, made[index] as Note[]),
    );
    if (isEager) say({ of: "append", batch: id, writes: said });
    const outcome = await store.append(batch);
    if (outcome.outcome !== "ok") throw new Error(`append answered ${outcome.outcome}`);
    if (!isEager) say({ of: "append", batch: id, writes: said });
    heads = outcome.heads;
  }
}

async function files(): Promise<void> {
  const log = await journal.open(tallyKind, "files");
  for (;;) {
    const bytes = randomBytes(some(10_000));
    const hash = await journal.putArtifact(bytes);
    say({ of: "artifact", hash });
    const batch = journal.newId();
    await append(log, batch, notes(batch, 1, 1, { artifact: hash }));
  }
}

async function claims(): Promise<void> {
  const log = await journal.open(tallyKind, "claims");
  for (;;) {
    const batch = journal.newId();
    const seq = await append(log, batch, notes(batch, 1, 1, { claim: batch }));
    say({ of: "claim", key: batch, stream: log.stream, seq });
  }
}

async function removals(): Promise<void> {
  for (;;) {
    const log = await journal.open(tallyKind, `short-lived-${life}-${++count}`);
    const batch = journal.newId();
    await append(log, batch, notes(batch, 2));
    say({ of: "removing", stream: log.stream });
    await journal.remove(log.stream);
    say({ of: "removed", stream: log.stream });
  }
}
