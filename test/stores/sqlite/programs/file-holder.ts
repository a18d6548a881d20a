// Locks an SQLite file exclusively, as SQLite does while it recovers one, until a line arrives on stdin.

import { Connection } from "../../../../src/stores/sqlite/index.ts";

const [path = ""] = process.argv.slice(2);
const connection = await Connection.open(path, false);
connection.exec("PRAGMA locking_mode = EXCLUSIVE");
connection.exec("BEGIN EXCLUSIVE");
process.stdout.write(`${JSON.stringify({ held: true })}\n`);
await new Promise((resolve) => process.stdin.once("data", resolve));
connection.exec("COMMIT");
await connection.close();
process.exit(0);
