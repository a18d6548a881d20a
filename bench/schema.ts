import type { StandardSchema } from "../src/index.ts";

/** Accepts every input as it is: what a schema library takes to check arguments is not ours to measure. */
export const anything: StandardSchema<unknown, unknown> = {
  "~standard": { version: 1, vendor: "bench", validate: (value: unknown) => ({ value }) },
};
