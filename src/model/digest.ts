import { hash } from "node:crypto";

/** SHA-256 in lower-case hex: names artifacts, keys and file contents. */
export function sha256(data: string | Uint8Array): string {
  return hash("sha256", data, "hex");
}
