/**
 * The same program on Postgres, on a pool that the program already has. Only the store differs. If an address
 * is enough, use `open(process.env.DATABASE_URL)`.
 */

import { open, openPostgres } from "holdfast";
import pg from "pg";

const address = process.env["DATABASE_URL"] ?? process.env["HOLDFAST_TEST_POSTGRES"];
if (!address) {
  console.log("no server: set DATABASE_URL");
  process.exit(0);
}

const schema = `holdfast_example_${process.pid}`;
const pool = new pg.Pool({ connectionString: address, max: 5 });
const store = await openPostgres({ pool, schema, busyMs: 10_000, statementMs: 20_000 });
const holdfast = await open(undefined, { store, namespace: "shop" });

const session = await holdfast.session("order-4711");
const result = await session.run({
  model: async () => ({ message: { text: "Order 4711 is paid." }, usage: { usd: 0.01 } }),
  prompt: { id: "p1", text: "Pay order 4711" },
});
console.log(`${result.status}: ${result.text}`);

// The stored data can be read with any database client.
const { rows } = await pool.query(`SELECT session_id, status FROM ${schema}.sessions`);
for (const row of rows) console.log(`the program's own query: ${row.session_id} ${row.status}`);

await holdfast.close();
console.log(`the program's pool is still open: ${!pool.ended}`);
await pool.query(`DROP SCHEMA ${schema} CASCADE`);
await pool.end();
