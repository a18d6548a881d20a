// Holds the write lock of an SQLite file until a line arrives on stdin.

import { Connection } from "../../../../src/stores/sqlite/index.ts";

const [path = ""] = process.argv.slice(2);
const connection = await Connection.open(path, false);
connection.exec("BEGIN IMMEDIATE");
process.stdout.write(`${JSON.stringify({ held: true })}\n`);
await new Promise((resolve) => process.stdin.once("data", resolve));
connection.exec("COMMIT");
await connection.close();
process.exit(0);
