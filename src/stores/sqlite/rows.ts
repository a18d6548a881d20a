/** Rows as changes see them, and keep them in mind. */

import type { StreamState } from "../../store.ts";
import type { StoredText } from "./text.ts";

/** What a change has to know of a stream. */
export interface StreamKey {
  readonly id: number;
  readonly state: StreamState;
  readonly generation: number;
  readonly seq: number;
  /** When it was last changed, in the steps of the index. */
  readonly updated_about: number;
}

/** JavaScript's own shift would cut a time to 32 bits. */
export function about(at: number): number {
  return Math.floor(at / 64);
}

export interface StoredLease {
  readonly name: StoredText;
  readonly token: number;
  readonly boot: string;
  readonly expires_at: number;
  readonly ttl: number;
  readonly holder: StoredText | null;
}
