import type { ReadPage, ReadRequest } from "../../store.ts";
import { copyPayload, type Space, streamOf, streamRow } from "./data.ts";

/** A stream's own writes. What a fork shares with its parent is read from the parent, up to the fork's `base`. */
export function read(space: Space, request: ReadRequest): ReadPage {
  const { after, upTo = Number.POSITIVE_INFINITY, limit = Number.POSITIVE_INFINITY } = request;
  const stream = streamOf(space, request.stream);
  const asked = stream.writes.filter(({ first, last }) => last > after && first <= upTo);
  const writes = asked.slice(0, limit).map((write) => ({ ...write, payload: copyPayload(write.payload) }));
  return { stream: streamRow(stream), writes, more: asked.length > writes.length };
}
