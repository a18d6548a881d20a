// 100,000 sessions in one file: listing, opening and appending are about as fast as with 100.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { alternate } from "../../bench/rounds.ts";
import { median, rounded } from "../../bench/statistics.ts";
import { makeTurn } from "../../bench/turns.ts";
import { type Holdfast, open } from "../../src/index.ts";
import { payloadSum } from "../../src/journal/index.ts";
import { sessionKind } from "../../src/model/session/index.ts";
import { makeEvent } from "../../src/model/stream/index.ts";
import type { Store, Write } from "../../src/store.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";

const FEW = 100;
const MANY = 100_000;
const PER_BATCH = 500;
const STATUSES = ["active", "completed", "failed"] as const;

/** How much slower the big file may be, with some room for a busy machine. */
const FACTOR = 3;
const SLACK_MS = 3;

let folder: string;
let few: Holdfast;
let many: Holdfast;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-scale-"));
  few = await filled("few.db", FEW);
  many = await filled("many.db", MANY);
}, 300_000);

afterAll(async () => {
  await Promise.all([few.close(), many.close()]);
  rmSync(folder, { recursive: true, force: true });
});

const nameOf = (index: number): string => `agent-${String(index).padStart(6, "0")}`;

async function filled(name: string, count: number): Promise<Holdfast> {
  const store = await openSqlite({ path: join(folder, name) });
  for (let from = 0; from < count; from += PER_BATCH) {
    const length = Math.min(PER_BATCH, count - from);
    await fill(
      store,
      Array.from({ length }, (_, index) => from + index),
    );
  }
  return open(undefined, { store });
}

/** Through the port, as the journal would write them one by one. */
async function fill(store: Store, indexes: readonly number[]): Promise<void> {
  const outcome = await store.append({
    id: `fill-${indexes[0]}`,
    namespace: "default",
    writes: indexes.map(sessionWrite),
  });
  expect(outcome.outcome).toBe("ok");
}

function sessionWrite(index: number): Write {
  const at = Date.now() - MANY + index;
  const status = STATUSES[index % STATUSES.length] ?? "active";
  const drafts = [
    { type: "session.opened", data: { title: `Order ${index}`, ttlMs: null } },
    { type: "session.status", data: { status, why: null, by: null } },
    { type: "checkpoint", data: { version: 1, label: null } },
  ];
  const events = drafts.map((draft) => makeEvent(sessionKind, draft, at));
  const payload = JSON.stringify(events);
  return {
    stream: `session/${nameOf(index)}`,
    expect: { generation: 1, seq: 0 },
    count: events.length,
    payload,
    codec: null,
    sum: payloadSum(payload),
    at,
    ...sessionKind.facets?.(sessionKind.initial(), events, 1),
  };
}

async function expectAlike(
  rounds: number,
  inFew: (round: number) => unknown,
  inMany: (round: number) => unknown,
): Promise<void> {
  let [small, large] = [0, Number.POSITIVE_INFINITY];
  // A cost that grows with the file does so every time; a busy machine is slow only sometimes.
  for (let turn = 0; turn < 4 && large > FACTOR * small + SLACK_MS; turn++) {
    const { rawMs: fewMs, oursMs: manyMs } = await alternate(
      rounds,
      (round) => inFew(turn * rounds + round),
      (round) => inMany(turn * rounds + round),
    );
    [small, large] = [rounded(median(fewMs)), rounded(median(manyMs))];
  }
  expect(large, `${large} ms with ${MANY} sessions, ${small} ms with ${FEW}`).toBeLessThanOrEqual(
    FACTOR * small + SLACK_MS,
  );
}

test("the newest 50 are listed as fast, and are the newest", async () => {
  const { sessions } = await many.sessions.list({ limit: 50 });
  expect(sessions.map(({ id }) => id)).toEqual(
    Array.from({ length: 50 }, (_, index) => nameOf(MANY - 1 - index)),
  );
  await expectAlike(
    30,
    () => few.sessions.list({ limit: 50 }),
    () => many.sessions.list({ limit: 50 }),
  );
});

test("the newest 50 of one status are listed as fast", async () => {
  await expectAlike(
    30,
    () => few.sessions.list({ status: "failed", limit: 50 }),
    () => many.sessions.list({ status: "failed", limit: 50 }),
  );
});

test("any session is opened as fast", async () => {
  const openOne = (holdfast: Holdfast, count: number) => async (round: number) => {
    const session = await holdfast.session(nameOf((round * 7_919) % count));
    await session.close();
  };
  await expectAlike(30, openOne(few, FEW), openOne(many, MANY));
});

test("a turn is appended as fast", async () => {
  const inFew = await few.session(nameOf(17));
  const inMany = await many.session(nameOf(MANY / 2));
  await expectAlike(
    40,
    (round) => inFew.append(makeTurn(round + 1).messages, { checkpoint: true }),
    (round) => inMany.append(makeTurn(round + 1).messages, { checkpoint: true }),
  );
});
