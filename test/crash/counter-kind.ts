import * as z from "zod";
import type { Json } from "../../src/model/json.ts";
import { event, type StreamKind } from "../../src/model/stream/index.ts";

export interface Counter {
  total: number;
  /** How many steps each writer made. */
  by: Record<string, number>;
  /** Steps that were decided on a state that was not the latest. */
  lost: number;
}

/** Counts in steps of one, and notices a step that did not know of the one before. */
export const counterKind: StreamKind<Counter> = {
  kind: "counter",
  foldVersion: 1,
  events: {
    counted: event(1, z.strictObject({ by: z.string(), total: z.int() }), (state: Counter, { by, total }) => {
      if (total !== state.total + 1) state.lost += 1;
      state.total += 1;
      state.by[by] = (state.by[by] ?? 0) + 1;
    }),
  },
  initial: () => ({ total: 0, by: {}, lost: 0 }),
  encode: (state) => ({ ...state }) as Json,
  decode: (json) => structuredClone(json) as unknown as Counter,
};
