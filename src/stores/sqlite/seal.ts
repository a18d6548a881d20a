/**
 * The seal: a row in `meta`. While it is there, and is not `arrived`, the file takes no writes but the copy's own.
 *
 * A write transaction that finds `data_version` as it left it knows that nobody else has set a seal; any other reads
 * the row again before its first act (`queue.ts`). So a process that had the file open long before meets the seal
 * at its next write, and one that is alone pays nothing for it.
 */

import type { Seal } from "../../store.ts";
import { isSameSeal } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import type { Done, Transaction } from "./transaction.ts";

export function readSeal(connection: Connection): Seal | null {
  const row = connection.get<{ value: string }>("SELECT value FROM meta WHERE name = 'seal'");
  return row ? (JSON.parse(row.value) as Seal) : null;
}

export function reseal(transaction: Transaction, expect: Seal | null, next: Seal | null): Done<boolean> {
  const { connection, seal } = transaction;
  if (!isSameSeal(seal, expect)) return { result: false, wrote: false };
  connection.run("DELETE FROM meta WHERE name = 'seal'");
  if (next) connection.run("INSERT INTO meta (name, value) VALUES ('seal', ?)", JSON.stringify(next));
  transaction.seal = next;
  return { result: true, wrote: true };
}
