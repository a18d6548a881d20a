// A pooler that gives every transaction another server connection would break everything that needs a
// session.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type StoreSubject, type StoreTopic, storeSuite } from "../../../src/testing/index.ts";
import { append, write } from "../sqlite/acts.ts";
import { needs } from "../sqlite/processes.ts";
import { hasPgbouncer, Pooler } from "./pooler.ts";
import { TestSchema } from "./schema.ts";
import { PostgresServer } from "./server.ts";
import { postgresForTest } from "./subject.ts";

const TOPICS: readonly StoreTopic[] = [
  "append",
  "guards and fencing",
  "keys claimed and released",
  "resend of a batch",
  "appends sent at once",
  "removal and tombstones",
  "leases",
  "watch",
];

describe.skipIf(!hasPgbouncer)(needs("through pgbouncer", "pgbouncer", hasPgbouncer), () => {
  let server: PostgresServer;
  let pooler: Pooler;
  let subject: StoreSubject & { dispose(): Promise<void> };

  beforeAll(async () => {
    server = await PostgresServer.start();
    pooler = await Pooler.before(server);
    subject = postgresForTest(pooler.url);
  });

  afterAll(async () => {
    await subject?.dispose();
    await pooler?.stop();
    await server?.stop();
  });

  for (const topic of TOPICS) {
    // A change must be noticed within seconds. A machine may pause that long, but not every time.
    test(`the contract holds: ${topic}`, { retry: topic === "watch" ? 3 : 0 }, async () => {
      const cases = storeSuite({ name: "through pgbouncer", open: () => subject.open() });
      for (const each of cases) if (each.topic === topic) await each.run();
    });
  }

  test("many handles share the few connections", async () => {
    const schema = new TestSchema(pooler.url);
    const stores = await Promise.all(Array.from({ length: 8 }, () => schema.open()));
    for (let seq = 0; seq < 5; seq++) {
      const outcomes = await Promise.all(
        stores.map((store, index) => append(store, write(`session/s${index}`, seq, [seq]))),
      );
      expect(outcomes.every(({ outcome }) => outcome === "ok")).toBe(true);
    }
    await schema.dispose();
  });
});
