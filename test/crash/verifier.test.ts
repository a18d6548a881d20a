/** The verifier must find each fault that is planted in a store. */

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { type Acknowledgement, readAcknowledgements } from "./acknowledgements.ts";
import { Workshop } from "./programs.ts";
import { verify } from "./verifier.ts";

type Database = InstanceType<typeof DatabaseSync>;

let workshop: Workshop;
let path: string;
let said: Acknowledgement[];

beforeAll(async () => {
  workshop = await Workshop.make();
});

afterAll(() => workshop.dispose());

async function problems(): Promise<string[]> {
  const store = await openSqlite({ path });
  try {
    return await verify(store, said);
  } finally {
    await store.close();
  }
}

const STREAM = "(SELECT id FROM streams WHERE stream = ?1)";
const LAST = `(SELECT max(id) FROM writes WHERE id >> 28 = ${STREAM})`;

/** Removes the last write of a stream, and makes everything else look as if it had never existed. */
function cut(database: Database, stream: string): void {
  database.prepare(`DELETE FROM writes WHERE id = ${LAST}`).run(stream);
  database.prepare(`UPDATE streams SET seq = ${LAST} & 268435455 WHERE stream = ?1`).run(stream);
}

/** Changes a payload and its checksum with it. */
function change(database: Database, stream: string): void {
  const row = database.prepare(`SELECT payload FROM writes WHERE id = ${LAST}`).get(stream);
  const payload = String((row as { payload: string }).payload).replace("xxx", "xyx");
  const write = database.prepare(`UPDATE writes SET payload = ?2, sum = ?3 WHERE id = ${LAST}`);
  write.run(stream, payload, crc32(payload));
}

const PLANTED: Readonly<Record<string, { plant(database: Database): void; found: RegExp }>> = {
  "an acknowledged append is gone": {
    plant: (database) => cut(database, "tally/alone"),
    found: /^lost: last, tally\/alone up to 5$/,
  },
  "half of a batch is gone": {
    plant: (database) => cut(database, "tally/right"),
    found: /^half batch: pair after the checkpoint has 2 of 4 events$/,
  },
  "an acknowledged append was changed": {
    plant: (database) => change(database, "tally/alone"),
    found: /^changed: last, tally\/alone up to 5$/,
  },
  "a payload no longer matches its checksum": {
    plant: (database) => database.exec("UPDATE writes SET payload = replace(payload, 'xxx', 'xyx')"),
    found: /^I2: .* do not match their checksum$/,
  },
  "the log has a gap": {
    plant: (database) => database.exec(`DELETE FROM writes WHERE first = 2`),
    found: /^I7: default tally\/alone: event 4 follows event 1$/,
  },
  "an artifact is gone": {
    plant: (database) => database.exec("DELETE FROM artifact_refs; DELETE FROM artifacts"),
    found: /^lost: artifact [0-9a-f]{64} is not in/,
  },
  "a claim was lost": {
    plant: (database) => database.exec("DELETE FROM keys"),
    found: /^lost: claim of key, now free$/,
  },
  "a lease's token went back": {
    plant: (database) => database.exec("DELETE FROM leases"),
    found: /^I7: tally\/alone: its token is 0, but 1 was granted$/,
  },
  "a snapshot was changed": {
    plant: (database) =>
      database.exec(`UPDATE snapshots SET payload = replace(payload, '"count":4', '"count":5')`),
    found: /^I10: tally\/alone at 4: the snapshot cannot be read.*checksum mismatch/,
  },
  "a snapshot is not the fold": {
    plant: (database) => {
      const { payload } = database.prepare("SELECT payload FROM snapshots").get() as { payload: string };
      const text = payload.slice(payload.indexOf(" ") + 1).replace('"count":4', '"count":5');
      database.prepare("UPDATE snapshots SET payload = ?").run(`${crc32(text)} ${text}`);
    },
    found: /^I10: tally\/alone at 4: the snapshot is not the fold of its events$/,
  },
  "a removed stream is back": {
    plant: (database) => {
      database.exec(`
        CREATE TEMP TABLE back AS SELECT * FROM streams WHERE stream = 'tally/alone';
        UPDATE back SET stream = 'tally/brief', id = 1000 + id, base = 0, seq = 0;
        INSERT INTO streams SELECT * FROM back;
      `);
    },
    found: /^removed, but there: tally\/brief$/,
  },
};

describe("the verifier notices that", () => {
  let sound: string;
  let told: Acknowledgement[];

  beforeAll(async () => {
    const place = await workshop.place();
    sound = join(place, "store.db");
    const file = join(place, "acknowledgements");
    const ended = await workshop.start("workload", sound, file).ended;
    expect(ended, ended.errors).toMatchObject({ code: 0 });
    told = readAcknowledgements(file);
  });

  beforeEach(async () => {
    path = join(await workshop.place(), "store.db");
    await copyFile(sound, path);
    said = told;
  });

  test("nothing is wrong", async () => {
    expect(await problems()).toEqual([]);
  });

  test.each(Object.entries(PLANTED))("%s", async (_, { plant, found }) => {
    const database = new DatabaseSync(path);
    plant(database);
    database.close();
    expect(await problems()).toContainEqual(expect.stringMatching(found));
  });
});

test("the verifier catches a writer that acknowledges before it is durable", async () => {
  const place = await workshop.place();
  path = join(place, "store.db");
  const file = join(place, "acknowledgements");
  const found: string[] = [];
  const isLost = (problem: string): boolean => /^lost: .* up to \d+$/.test(problem);
  // At nearly every moment an append is in flight; one writer of many is enough.
  for (let life = 0; life < 50 && !found.some(isLost); life++) {
    const writer = workshop.start("writer", path, file, String(life), "eager");
    await writer.line("ready");
    writer.say("go");
    await writer.line("working");
    writer.signal("SIGKILL");
    expect((await writer.ended).signal).toBe("SIGKILL");
    said = readAcknowledgements(file);
    found.push(...(await problems()));
  }
  expect(found.filter(isLost)).not.toEqual([]);
});
