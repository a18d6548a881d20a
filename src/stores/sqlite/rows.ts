/** Rows as changes see them, and keep them in mind. */

import type { StreamState } from "../../store.ts";
import type { StoredText } from "./text.ts";

/** What a change has to know of a stream. */
export interface StreamKey {
  readonly id: number;
  readonly state: StreamState;
  readonly generation: number;
  readonly seq: number;
}

export interface StoredLease {
  readonly name: StoredText;
  readonly token: number;
  readonly boot: string;
  readonly expires_at: number;
  readonly ttl: number;
  readonly holder: StoredText | null;
}
