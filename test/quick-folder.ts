import { accessSync, constants, statfsSync } from "node:fs";
import { tmpdir } from "node:os";

const MEMORY = "/dev/shm";
/** A container often has a few megabytes of it, and some tests store texts of twenty. */
const ENOUGH_BYTES = 1_000_000_000;

/**
 * Where temporary folders go that nothing but the kernel has to remember: in memory where there is enough of it, since a
 * disk takes milliseconds for every sync. HOLDFAST_FULL=1 takes the disk.
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
