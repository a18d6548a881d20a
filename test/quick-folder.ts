import { accessSync, constants, statfsSync } from "node:fs";
import { tmpdir } from "node:os";

const MEMORY = "/dev/shm";
/** Containers often have only a few megabytes of it, and some tests store texts of twenty. */
const ENOUGH_BYTES = 1_000_000_000;

/**
 * The place for temporary folders that need no durability: in memory if there is enough, because a disk takes
 * milliseconds per sync. HOLDFAST_FULL=1 uses the disk.
 */
export function quickFolder(): string {
  if (process.env["HOLDFAST_FULL"] || tmpdir().startsWith(MEMORY)) return tmpdir();
  try {
    accessSync(MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize > ENOUGH_BYTES ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}
