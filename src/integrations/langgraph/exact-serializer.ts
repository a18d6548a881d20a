import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { HoldfastError } from "../../model/errors.ts";
import type { Json } from "../../model/json.ts";
import { reviveLoading } from "./exact-revival.ts";
import { writeExact } from "./exact-value.ts";

const TYPE = "holdfast.exact";

/**
 * The saver's serializer unless another is given: what it writes comes back as it was, or is refused when it is written.
 * LangGraph's own turns a Date into a string, NaN into null, a Buffer into an object, and a whole checkpoint with one
 * bigint in it into a sentence.
 */
export class ExactSerializer implements SerializerProtocol {
  async dumpsTyped(data: unknown): Promise<[string, Uint8Array]> {
    return [TYPE, new TextEncoder().encode(JSON.stringify(writeExact(data, "value").json))];
  }

  async loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> {
    if (type !== TYPE) {
      throw new HoldfastError("CODEC_UNKNOWN", `a saved value is of type ${JSON.stringify(type)}`, {
        hint: "It was written with another serializer: pass that one to the saver as `serde`.",
      });
    }
    const text = typeof data === "string" ? data : new TextDecoder().decode(data);
    return reviveLoading(JSON.parse(text) as Json);
  }
}
