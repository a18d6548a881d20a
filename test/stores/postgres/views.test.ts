// A person with `psql` can read everything without the library.

import { afterAll, afterEach } from "vitest";
import { testViews } from "../views.ts";
import { TestSchema } from "./schema.ts";

const schema = new TestSchema();

testViews({
  open: () => schema.open({ pool: schema.pool }),
  query: async (sql) => {
    const inSchema = sql.replace(/ FROM (?=\w)/, " FROM $schema.");
    const rows = await schema.query<{ row: string }>(
      `SELECT to_json(found)::text AS row FROM (${inSchema}) AS found`,
    );
    return rows.map(({ row }) => JSON.parse(row));
  },
  arrayLength: "jsonb_array_length",
  json: (value) => value,
  flag: (value) => value,
});

afterEach(() => schema.empty());
afterAll(() => schema.dispose());
