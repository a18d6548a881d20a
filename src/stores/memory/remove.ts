import type { RemoveOutcome, RemoveRequest } from "../../store.ts";
import { fencedOff, goneStream, type Space, type Stream, sameHead, streamOf } from "./data.ts";

export function remove(space: Space, request: RemoveRequest, now: number): RemoveOutcome {
  switch (request.of) {
    case "stream":
      return removeStream(space, request, now);
    case "artifacts":
      return { outcome: "removed", count: dropArtifacts(space, garbage(space, request.putBefore)) };
    case "snapshots": {
      const stream = streamOf(space, request.stream);
      const count = stream.snapshots.length;
      stream.snapshots = [];
      return { outcome: "removed", count };
    }
  }
}

function removeStream(
  space: Space,
  { stream: name, expect, guards }: Extract<RemoveRequest, { of: "stream" }>,
  now: number,
): RemoveOutcome {
  const fenced = fencedOff(space, guards ?? [], now);
  if (fenced) return fenced;
  const stream = streamOf(space, name);
  if (!sameHead(stream.head, expect)) return { outcome: "conflict", head: { ...stream.head } };
  if (stream.state === "gone") return { outcome: "removed", count: 0 };
  // Forks need only the events and what those refer to; everything that shows goes now.
  stream.items.clear();
  stream.snapshots = [];
  stream.state = "hidden";
  if (isShared(space, stream)) return { outcome: "hidden" };
  return { outcome: "removed", count: bury(space, stream) };
}

function isShared(space: Space, { name }: Stream): boolean {
  return [...space.streams.values()].some(({ parent }) => parent?.stream === name);
}

/** Leaves a tombstone, also for each hidden ancestor that nobody shares any more. */
function bury(space: Space, stream: Stream): number {
  let count = 0;
  let next: Stream | undefined = stream;
  while (next?.state === "hidden" && !isShared(space, next)) {
    const { name, head, parent }: Stream = next;
    space.streams.set(name, goneStream(name, head.generation + 1));
    count += 1;
    next = parent ? space.streams.get(parent.stream) : undefined;
  }
  return count;
}

/** Artifacts that no stream refers to and that were put before this wall clock. */
export function garbage(space: Space, putBefore: number): string[] {
  const referred = new Set([...space.streams.values()].flatMap(({ artifacts }) => [...artifacts]));
  const old = [...space.artifacts].filter(([hash, { putAt }]) => putAt < putBefore && !referred.has(hash));
  return old.map(([hash]) => hash);
}

function dropArtifacts(space: Space, hashes: readonly string[]): number {
  for (const hash of hashes) space.artifacts.delete(hash);
  return hashes.length;
}
