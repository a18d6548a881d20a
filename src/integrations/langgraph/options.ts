import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { ToolSpec } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";

/** How a `HoldfastSaver` saves values, and how long it keeps threads. */
export interface HoldfastSaverOptions {
  /** Turns values into bytes. Default: `ExactSerializer`. */
  readonly serde?: SerializerProtocol;
  /** How long a thread lives after its last write, until `removeExpired()` removes it. Default: for ever. */
  readonly ttlMs?: number | null;
  /** How many threads stay in memory. Default: 100. */
  readonly threadsInMemory?: number;
}

type InlineToolSpec<Result> = Omit<
  ToolSpec<Json, Result>,
  "name" | "description" | "input" | "execute" | "effect" | "dedupe"
>;

/** Options of `effects.effect`: how an interrupted effect is settled, and what identifies it. */
export interface EffectOptions<Result> extends Partial<InlineToolSpec<Result>> {
  /** Makes the effect happen once in the life of the thread, wherever it is called from. */
  readonly id?: string;
  /**
   * Recorded with the effect, for people, for `verify`, and to tell two effects of one name apart. Default in
   * a durable tool, without `id`: the arguments of the tool.
   */
  readonly args?: Json;
  /** `read` runs again freely, `write` sets a state, `mutate` counts each time. Default: `mutate`. */
  readonly effect?: ToolSpec<Json, Result>["effect"];
}
