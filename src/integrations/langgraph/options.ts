/** The public options of this integration. */

import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { ToolSpec } from "../../ledger/index.ts";
import type { Json } from "../../model/json.ts";

/** How a `HoldfastSaver` saves values, and how long it keeps threads. */
export interface HoldfastSaverOptions {
  /**
   * Turns values into bytes. Default: `ExactSerializer`, which refuses a value that would not come back as
   * it was.
   *
   * @example new HoldfastSaver(holdfast, { serde: new MemorySaver().serde })
   */
  readonly serde?: SerializerProtocol;
  /**
   * How long a thread lives after its last write, in milliseconds. Then `removeExpired()` may remove it.
   * Default: for ever.
   *
   * @example new HoldfastSaver(holdfast, { ttlMs: 30 * 24 * 3_600_000 })
   */
  readonly ttlMs?: number | null;
  /**
   * How many threads stay in memory. Others are read again when they are used. Default: 100.
   *
   * @example new HoldfastSaver(holdfast, { threadsInMemory: 1_000 })
   */
  readonly threadsInMemory?: number;
}

type InlineToolSpec<Result> = Omit<
  ToolSpec<Json, Result>,
  "name" | "description" | "input" | "execute" | "effect" | "dedupe"
>;

/**
 * Options of `effects.effect`: how an interrupted effect is settled (`verify`, `idempotent`, `settleMs` …),
 * and what identifies it.
 */
export interface EffectOptions<Result> extends Partial<InlineToolSpec<Result>> {
  /**
   * Makes the effect happen once in the life of the thread, wherever it is called from.
   *
   * @example await effects.effect("welcome", sendWelcome, { id: "welcome-mail" })
   */
  readonly id?: string;
  /**
   * Recorded with the effect, for people, for `verify`, and to tell two effects of one name apart. Default
   * in a durable tool, without `id`: the arguments of the tool.
   *
   * @example await effects.effect("charge", () => pay(order), { args: { order: order.id } })
   */
  readonly args?: Json;
  /**
   * `read` runs again freely, `write` sets a state, `mutate` counts each time. Default: `mutate`.
   *
   * @example await effects.effect("stock", readStock, { effect: "read" })
   */
  readonly effect?: ToolSpec<Json, Result>["effect"];
}
