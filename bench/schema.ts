import type { StandardSchema } from "../src/index.ts";

/** Accepts every input: the cost of a schema library is not ours to measure. */
export const anything: StandardSchema<unknown, unknown> = {
  "~standard": {
    version: 1,
    vendor: "bench",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
};
