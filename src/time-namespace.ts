import { readlinkSync } from "node:fs";

/** In which the clocks of this process, and the start times that it sees, count. A kernel that has none says so; throws where it cannot be read. */
export function timeNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "none";
    throw error;
  }
}
