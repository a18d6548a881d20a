import type { Seal } from "../../store.ts";
import type { Connection } from "./driver.ts";
import type { RowCache } from "./row-cache.ts";

/** An open write transaction: where to read and write, and what need not be read again. */
export interface Transaction {
  readonly connection: Connection;
  readonly cache: RowCache;
  /** As the acts before have left it. */
  seal: Seal | null;
}

/** What an act in an open transaction gives back. `wrote`: there is something to commit. */
export interface Done<Result> {
  readonly result: Result;
  readonly wrote: boolean;
}
