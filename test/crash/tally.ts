import * as z from "zod";
import { sha256 } from "../../src/model/digest.ts";
import type { Json } from "../../src/model/json.ts";
import { event, type StreamKind } from "../../src/model/stream/index.ts";

/**
 * A kind of stream for kill tests. Every event names its batch and the number of events of that batch in all
 * streams. Half a batch is thus found without the writer's acknowledgements.
 */
export interface Note {
  readonly id: string;
  readonly batch: string;
  readonly size: number;
  readonly text: string;
  /** A key that the event claims, and an artifact that it refers to. */
  readonly claim?: string;
  readonly artifact?: string;
}

export interface Tally {
  count: number;
  last: string;
}

const note = z.strictObject({
  id: z.string(),
  batch: z.string(),
  size: z.int(),
  text: z.string(),
  claim: z.string().optional(),
  artifact: z.string().optional(),
}) as unknown as z.ZodType<Note>;

/** The state stays tiny however long the log gets, so that snapshots are saved. */
export const tallyKind: StreamKind<Tally> = {
  kind: "tally",
  foldVersion: 1,
  events: {
    note: event(1, note, (state: Tally, data) => {
      state.count += 1;
      state.last = data.id;
    }),
  },
  initial: () => ({ count: 0, last: "" }),
  encode: (state) => ({ ...state }) as Json,
  decode: (json) => ({ ...(json as unknown as Tally) }),
  facets: (_, events) => {
    const notes = events.map(({ data }) => data as Note);
    const claims = notes.flatMap(({ claim }, index) =>
      claim === undefined ? [] : [{ key: claim, event: index }],
    );
    const artifacts = notes.flatMap(({ artifact }) => artifact ?? []);
    return { claims, artifacts };
  },
};

export function digest(data: Note): string {
  const { id, batch, size, text, claim = null, artifact = null } = data;
  return sha256(JSON.stringify([id, batch, size, text, claim, artifact])).slice(0, 16);
}
