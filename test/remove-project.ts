// Removes a project in which hooks ran. Hooks leave a background process, which may still be writing.

import { readdirSync, readlinkSync, rmSync } from "node:fs";

const PATIENCE_MS = 15_000;
const LOOK_EVERY_MS = 20;

/** Waits for processes with this working directory, so that none sees half a folder or creates it again. */
export function removeProject(folder: string): void {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline && someoneIn(folder)) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_EVERY_MS);
  }
  // If /proc hides a process, it may add a file during the removal: retry.
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
      return false; // It ended meanwhile, or belongs to another user.
    }
  });
}
