import type { Problem } from "../../store.ts";
import { headProblems, writeProblems } from "../kit/index.ts";
import type { MemoryData, Stream } from "./data.ts";

/** A memory store can only break by a mistake in its own code, which is what this would show. */
export function check(data: MemoryData): Problem[] {
  return [...data.spaces].flatMap(([namespace, { streams }]) =>
    [...streams.values()].flatMap((stream) => [...streamProblems(stream, `${namespace} ${stream.name}`)]),
  );
}

function* streamProblems({ base, head, writes }: Stream, where: string): Generator<Problem> {
  let seq = base;
  for (const write of writes) {
    yield* writeProblems(where, seq, write);
    seq = write.last;
  }
  yield* headProblems(where, seq, head.seq);
}
