import type { CheckpointListOptions, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { sameJson } from "../../model/json.ts";
import type { CheckpointPlace } from "./loading.ts";
import type { Space, ThreadState } from "./thread-state.ts";

interface ListOptions extends CheckpointListOptions {
  readonly ns: unknown;
  readonly id: unknown;
}

/** A thread's checkpoints, latest first, one namespace after another. Loaded one by one, as far as somebody reads. */
export async function* listTuples(
  state: ThreadState,
  thread: string,
  options: ListOptions,
  load: (place: CheckpointPlace) => Promise<CheckpointTuple | undefined>,
): AsyncGenerator<CheckpointTuple> {
  const { ns, id: only, before, filter } = options;
  for (const [name, space] of [...state.spaces]) {
    if (ns !== undefined && ns !== name) continue;
    for (const id of idsBefore(space, before?.configurable?.["checkpoint_id"])) {
      if (only !== undefined && only !== id) continue;
      const tuple = await load({ thread, ns: name, id });
      if (tuple && matches(tuple, filter)) yield tuple;
    }
  }
}

/** By the order in which they were saved: a clock that is behind must not hide what came later. */
function idsBefore({ order }: Space, before: unknown): string[] {
  if (typeof before !== "string" || before === "") return order.toReversed();
  const place = order.indexOf(before);
  const earlier = place >= 0 ? order.slice(0, place) : order.filter((id) => id < before);
  return earlier.toReversed();
}

function matches({ metadata }: CheckpointTuple, filter: CheckpointListOptions["filter"]): boolean {
  return Object.entries(filter ?? {}).every(([name, value]) => sameJson(metadata?.[name as never], value));
}
