import { type Journal, verifySum } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { streamId } from "../../model/names.ts";
import { applyEvent, type FacetChange, type StreamKind } from "../../model/stream/index.ts";
import type { StoredWrite } from "../../store.ts";

/** The state of a stream as its writes come by: what each carries beside its events follows from it. */
export class Fold {
  private readonly kind: StreamKind<unknown>;
  private readonly state: unknown;

  private constructor(kind: StreamKind<unknown>, state: unknown) {
    this.kind = kind;
    this.state = state;
  }

  static async at(
    journal: Journal,
    kind: StreamKind<unknown>,
    parent: string | null,
    base: number,
  ): Promise<Fold> {
    if (parent === null) return new Fold(kind, kind.initial());
    return new Fold(kind, (await journal.load(kind, streamId(parent), base)).state);
  }

  /** What is carried elsewhere is acted on there, so the record has to match its checksum. */
  add(journal: Journal, stream: string, write: StoredWrite): FacetChange {
    const place = { namespace: journal.namespace, stream, seq: write.first };
    verifySum(write, place);
    const events = journal.payloads.decodeEvents(write.payload, write.codec, place);
    if (events.length !== write.last - write.first + 1) {
      throw new HoldfastError("EVENT_CORRUPT", `${stream} at ${write.first}: the record lacks events`, {
        hint: "Run `check` on the store, and restore it from a backup.",
        data: { ...place },
      });
    }
    const change = this.kind.facets?.(this.state, events, write.first) ?? {};
    events.forEach((event, index) => {
      applyEvent(this.kind, this.state, event, write.first + index);
    });
    return change;
  }
}
