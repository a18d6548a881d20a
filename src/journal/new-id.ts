/** Ids of sessions, messages, calls and batches. */

import { randomUUID } from "node:crypto";

let latestMs = 0;
let idsThisMs = 0;
/** Three hexadecimal digits. */
const IDS_PER_MS = 0x1000;

/**
 * A new id: a UUID of version 7. Ids of one process sort in the order in which they were made, because
 * those of one millisecond are numbered; after 4,096 of them they take from the next millisecond.
 */
export function newId(): string {
  const now = Date.now();
  idsThisMs += 1;
  if (now > latestMs || idsThisMs === IDS_PER_MS) {
    latestMs = Math.max(now, latestMs + 1);
    idsThisMs = 0;
  }
  const time = latestMs.toString(16).padStart(12, "0");
  const number = idsThisMs.toString(16).padStart(3, "0");
  // The last 16 digits are random. Node keeps a supply of them, which takes no system call.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${number}-${randomUUID().slice(19)}`;
}
