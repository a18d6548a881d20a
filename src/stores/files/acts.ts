/** What a batch, a removal, an artifact each do inside a turn: every question first, then the line, then memory. */

import type { AppendOutcome, Batch, PutRequest, RemoveOutcome, RemoveRequest, Write } from "../../store.ts";
import { guardsOf } from "../kit/index.ts";
import type { Turn } from "./append.ts";
import { dropArtifact, hasArtifactFile, keepArtifact } from "./artifacts.ts";
import { answerAtOnce, garbage } from "./foundations.ts";
import { leaseNow, prolong } from "./leases.ts";
import { toSegment } from "./line.ts";
import { dropSnapshots } from "./snapshots.ts";
import type { LoggedWrite } from "./state.ts";

export function append(turn: Turn, batch: Batch): AppendOutcome {
  const { state, journal, place } = turn.folder;
  const { namespace } = batch;
  const answer = answerAtOnce(state.space(namespace), batch, place.clock.nowMs());
  if (answer?.outcome === "fenced") return { ...answer, now: leaseNow(turn.folder, namespace, answer.lease) };
  if (answer) return answer;
  const kept = batch.writes.map(toLogged);
  const logged = kept.map(({ write }) => write);
  const segments = kept.map(({ segment }) => segment);
  const line = turn.log({ do: "append", id: batch.id, namespace, writes: logged }, segments);
  const outcome = state.applyBatch(batch, logged, line, journal);
  prolong(turn, namespace, guardsOf(batch));
  return outcome;
}

function toLogged({ payload, codec, ...write }: Write): { write: LoggedWrite; segment: Buffer } {
  const { form, segment } = toSegment(payload);
  const bytes = segment.length;
  return {
    write: { ...write, ...(codec !== null && { codec }), ...(form !== "json" && { form }), bytes },
    segment,
  };
}

export function removeAct(turn: Turn, request: RemoveRequest): RemoveOutcome {
  switch (request.of) {
    case "stream":
      return removeStream(turn, request);
    case "artifacts":
      return collectArtifacts(turn, request.namespace, request.putBefore);
    case "snapshots":
      return { outcome: "removed", count: dropSnapshots(turn.folder, request.namespace, request.stream) };
  }
}

function removeStream(turn: Turn, request: Extract<RemoveRequest, { of: "stream" }>): RemoveOutcome {
  const { folder } = turn;
  const { namespace, stream, expect, erase = false } = request;
  const outcome = folder.state.removeStream(request);
  if (outcome.outcome === "fenced") {
    return { ...outcome, now: leaseNow(folder, namespace, outcome.lease) };
  }
  if (outcome.outcome === "conflict" || (outcome.outcome === "removed" && outcome.count === 0))
    return outcome;
  turn.log({ do: "remove", namespace, stream, expect });
  turn.afterwards.push(() => dropSnapshots(folder, namespace, stream, erase));
  if (erase) turn.mustErase = true;
  return outcome;
}

function collectArtifacts(turn: Turn, namespace: string, putBefore: number): RemoveOutcome {
  const { folder } = turn;
  const { state } = folder;
  const hashes = garbage(state.space(namespace), putBefore);
  if (hashes.length > 0) {
    const { length } = turn.log({ do: "collect", namespace, hashes });
    state.collect(namespace, hashes, length);
    turn.afterwards.push(() => {
      // The same turn may have put one of them again.
      const gone = hashes.filter((hash) => !state.space(namespace).artifacts.has(hash));
      for (const hash of gone) dropArtifact(folder, namespace, hash);
    });
  }
  return { outcome: "removed", count: hashes.length };
}

/** The bytes are on the disk under their name before the line that speaks of them is written. */
export function putArtifact(turn: Turn, request: Extract<PutRequest, { of: "artifact" }>): void {
  const { namespace, hash, bytes, at } = request;
  const { folder } = turn;
  const { state } = folder;
  const known = state.space(namespace).artifacts.get(hash);
  const isThere = known !== undefined && hasArtifactFile(folder, namespace, hash, bytes);
  if (isThere && known.putAt >= at) return;
  if (!isThere) turn.folders.add(keepArtifact(folder, namespace, hash, bytes));
  const { length } = turn.log({ do: "artifact", namespace, hash, at });
  state.putArtifact(namespace, hash, at, length);
}
