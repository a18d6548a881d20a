/**
 * The items of an OpenAI Agents session as a stream, `openai-agents/<session>`. There is one event: some items at the end go,
 * others come. Adding keeps all, `popItem` keeps all but the last, clearing keeps none. Each is one conditional append,
 * so a crash leaves the list before or the list after, and two writers never lose an item of the other.
 *
 * The items belong to one life of their session: a session that was removed and made again has none of those before it. They
 * are removed with it (`Sessions.erase`, `.prune`), and should that be cut off, the life that stands with them tells.
 */

import * as z from "zod";
import { HoldfastError } from "../../model/errors.ts";
import type { Json } from "../../model/json.ts";
import { event, type StreamKind } from "../../model/stream/index.ts";

export interface StoredItem {
  /** The run that added it, of those that are resumed as one; null if nobody said. */
  readonly run: string | null;
  readonly item: Json;
}

export interface ItemState {
  /** Of the session whose items these are: which of that name. 0 where nothing was written yet. */
  life: number;
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
  /** Absent for the first. */
  readonly life?: number;
}

const itemsChanged = z.strictObject({
  keep: z.int().check(z.nonnegative()),
  add: z.array(z.json()),
  run: z.nullable(z.string()),
  operation: z.optional(z.strictObject({ id: z.string(), digest: z.string() })),
  life: z.optional(z.int().check(z.positive())),
}) as unknown as z.ZodType<ItemsChanged>;

function applyChanged(state: ItemState, { keep, add, run, operation, life = 1 }: ItemsChanged): void {
  if (life !== state.life) {
    state.items.splice(0);
    state.operations.clear();
    state.life = life;
  }
  state.items.splice(keep);
  for (const item of add) state.items.push({ run, item });
  if (operation) state.operations.set(operation.id, operation.digest);
}

export const itemKind: StreamKind<ItemState> = {
  kind: "openai-agents",
  foldVersion: 2,
  events: { "items.changed": event(1, itemsChanged, applyChanged) },
  initial: () => ({ life: 0, items: [], operations: new Map() }),
  encode: ({ life, items, operations }) => ({ life, items, operations: [...operations] }) as unknown as Json,
  decode: (json) => {
    const { life, items, operations } = json as unknown as {
      life: number;
      items: StoredItem[];
      operations: [string, string][];
    };
    return { life, items: [...items], operations: new Map(operations) };
  },
  facets: (state) => (state.items.length === 0 ? { facets: { status: "active" } } : {}),
};

/** What is there for one life of the session. One that was removed, and has a successor, is told. */
export function stateIn(state: ItemState, life: number, session: string): ItemState {
  if (state.life === life) return state;
  if (state.life < life) return itemKind.initial();
  throw new HoldfastError("STATE_STALE", `session ${session} was removed, and another has its name now`, {
    hint: "Nothing was changed. Open the session again: it begins anew.",
    data: { session },
  });
}
