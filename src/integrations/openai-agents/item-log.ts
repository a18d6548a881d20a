/**
 * The items of an OpenAI Agents session as a stream, `openai-agents/<session>`. There is one event: some items at the end go,
 * others come. Adding keeps all, `popItem` keeps all but the last, clearing keeps none. Each is one conditional append,
 * so a crash leaves the list before or the list after, and two writers never lose an item of the other.
 */

import * as z from "zod";
import { event, type Json, type StreamKind } from "../../model/index.ts";

export interface StoredItem {
  /** The run that added it, of those that are resumed as one; null if nobody said. */
  readonly run: string | null;
  readonly item: Json;
}

export interface ItemState {
  readonly items: StoredItem[];
  /** What each named operation did, so that it is not done twice. */
  readonly operations: Map<string, string>;
}

export interface ItemsChanged {
  /** How many of the items that are there stay. */
  readonly keep: number;
  readonly add: readonly Json[];
  readonly run: string | null;
  readonly operation?: { readonly id: string; readonly digest: string };
}

const itemsChanged = z.strictObject({
  keep: z.int().check(z.nonnegative()),
  add: z.array(z.json()),
  run: z.nullable(z.string()),
  operation: z.optional(z.strictObject({ id: z.string(), digest: z.string() })),
}) as unknown as z.ZodType<ItemsChanged>;

function applyChanged(state: ItemState, { keep, add, run, operation }: ItemsChanged): void {
  state.items.splice(keep);
  for (const item of add) state.items.push({ run, item });
  if (operation) state.operations.set(operation.id, operation.digest);
}

export const itemKind: StreamKind<ItemState> = {
  kind: "openai-agents",
  foldVersion: 1,
  events: { "items.changed": event(1, itemsChanged, applyChanged) },
  initial: () => ({ items: [], operations: new Map() }),
  encode: ({ items, operations }) => ({ items, operations: [...operations] }) as unknown as Json,
  decode: (json) => {
    const { items, operations } = json as unknown as {
      items: StoredItem[];
      operations: [string, string][];
    };
    return { items: [...items], operations: new Map(operations) };
  },
  facets: (state) => (state.items.length === 0 ? { facets: { status: "active" } } : {}),
};
