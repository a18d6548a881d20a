import type { StandardSchema } from "../../ledger/index.ts";

/** What the SDK takes as a tool's `inputSchema`: a Standard Schema, one of its own, or a function that makes one. */
export type InputSchema = StandardSchema<unknown, unknown> | SdkSchema | (() => InputSchema);

/** Of `jsonSchema()`: without `validate` it accepts everything. */
interface SdkSchema {
  readonly validate?: (value: unknown) => SdkVerdict | PromiseLike<SdkVerdict>;
}

type SdkVerdict =
  | { readonly success: true; readonly value: unknown }
  | { readonly success: false; readonly error: Error };

/** For arguments that are on record: the SDK itself reads only what its model says now. */
export function schemaOf(given: InputSchema | undefined): StandardSchema<unknown, unknown> {
  const validate = async (value: unknown) => {
    const schema = typeof given === "function" && !("~standard" in given) ? given() : given;
    if (!schema) return { value };
    if ("~standard" in schema) return schema["~standard"].validate(value);
    if (typeof schema === "function") return schemaOf(schema)["~standard"].validate(value);
    const verdict = (await schema.validate?.(value)) ?? { success: true, value };
    return verdict.success ? { value: verdict.value } : { issues: [{ message: verdict.error.message }] };
  };
  return { "~standard": { version: 1, vendor: "holdfast", validate } };
}
