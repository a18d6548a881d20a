import { canonicalText } from "../model/json.ts";
import type { StreamKind } from "../model/stream/index.ts";
import type { Problem, ReadRequest } from "../store.ts";
import { foldName, loadStream, type Reader, readState } from "./reading.ts";

/**
 * I10: every snapshot equals the fold of the events before it. Also proves that every event of the stream can be
 * decoded, upcast and folded. What the store can check alone, `store.check()` does.
 */
export async function checkStream<State>(
  reader: Reader,
  kind: StreamKind<State>,
  stream: string,
): Promise<Problem[]> {
  const problems: Problem[] = [];
  const { namespace } = reader;
  const bare = withoutSnapshots(reader);
  try {
    await loadStream(bare, kind, stream);
  } catch (error) {
    problems.push({ invariant: "I10", where: stream, what: `cannot be folded: ${(error as Error).message}` });
    return problems;
  }
  const snapshots = await reader.store.list<"snapshots">({ of: "snapshots", namespace, stream });
  for (const { seq, fold } of snapshots.rows) {
    if (fold !== foldName(kind)) continue;
    const blob = await reader.store.get({ of: "snapshot", namespace, stream, fold, upTo: seq });
    if (!blob || blob.seq !== seq) continue;
    const folded = await loadStream(bare, kind, stream, seq);
    const what = difference(
      kind,
      () => readState({ ...reader, verifies: true }, kind, stream, blob),
      folded.state,
    );
    if (what !== null) problems.push({ invariant: "I10", where: `${stream} at ${seq}`, what });
  }
  return problems;
}

function difference<State>(kind: StreamKind<State>, read: () => State, folded: State): string | null {
  try {
    const isSame = canonicalText(kind.encode(read())) === canonicalText(kind.encode(folded));
    return isSame ? null : "the snapshot is not the fold of its events";
  } catch (error) {
    return `the snapshot cannot be read, its events are used instead: ${(error as Error).message}`;
  }
}

/** The same store, with its shortcuts hidden. */
function withoutSnapshots(reader: Reader): Reader {
  const store = new Proxy(reader.store, {
    get(target, name) {
      if (name === "read") return ({ fold: _, ...request }: ReadRequest) => target.read(request);
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { ...reader, store };
}
