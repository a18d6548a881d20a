// Removes a project in which hooks ran. They leave a process behind that nobody waits for: it may still be writing.

import { readdirSync, readlinkSync, rmSync } from "node:fs";

const PATIENCE_MS = 15_000;
const LOOK_EVERY_MS = 20;

/** Waits for the processes that stand in it, so that none meets a folder that is half gone, and none makes it anew. */
export function removeProject(folder: string): void {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline && someoneIn(folder)) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_EVERY_MS);
  }
  // Where processes cannot be seen, one may add a file between our last look and the removal.
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

function someoneIn(folder: string): boolean {
  if (process.platform !== "linux") return false;
  return readdirSync("/proc").some((entry) => {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) return false;
    try {
      const place = readlinkSync(`/proc/${entry}/cwd`);
      return place === folder || place.startsWith(`${folder}/`);
    } catch {
      return false; // It ended meanwhile, or it is another user's.
    }
  });
}
