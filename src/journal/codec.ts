import { HoldfastError } from "../model/errors.ts";
import type { JsonText } from "../model/json-text.ts";
import type { Event } from "../model/stream/index.ts";
import type { Payload, StoredWrite } from "../store.ts";

/** Where a payload belongs: encryption binds to it, so that a row moved elsewhere does not decrypt. */
export interface PayloadPlace {
  readonly namespace: string;
  readonly stream: string;
  /** Seq of the payload's first event, or of the snapshot. */
  readonly seq: number;
}

/**
 * Sits between journal and store: encryption and redaction plug in here. It sees everything that is said: messages,
 * arguments, results, plans. `text` is JSON: a list of events, or a snapshot of the whole state, which is an object; an
 * `encode` that throws at a snapshot costs a warning and a longer way to load. What lists and views show (titles, goals,
 * labels, names of tools) and the bytes of artifacts pass by it and stay readable. `decode(encode(text))` may differ from
 * `text` (a redaction does); memory then holds what was stored, so the two never diverge. The name is kept with every
 * payload: a store may hold payloads of several codecs, and one that is not configured is a clear error.
 */
export interface PayloadCodec {
  readonly name: string;
  encode(text: string, place: PayloadPlace): Payload;
  decode(payload: Payload, place: PayloadPlace): string;
}

export interface Encoded {
  readonly payload: Payload;
  /** The payload is text, as its bytes in UTF-8. */
  readonly isUtf8?: true;
  readonly codec: string | null;
  readonly sum: number;
  /** The events as a reader will see them. */
  readonly events: readonly Event[];
}

/** `codecs[0]` writes; all of them read. Without any, payloads are plain JSON text. */
export class Payloads {
  private readonly codecs: readonly PayloadCodec[];
  private readonly toUtf8: ((text: JsonText) => Uint8Array | undefined) | undefined;

  /** `toUtf8`: for a store that takes plain text as bytes. What it has none for goes as a string. */
  constructor(codecs: readonly PayloadCodec[], toUtf8?: (text: JsonText) => Uint8Array | undefined) {
    this.codecs = codecs;
    this.toUtf8 = toUtf8;
  }

  /** True when what is read is what was said, word for word: no codec can have changed it. */
  get hasNoCodec(): boolean {
    return this.codecs.length === 0;
  }

  /** `text` is the JSON of `events`. */
  encodeEvents(events: readonly Event[], text: JsonText, place: PayloadPlace): Encoded {
    const codec = this.codecs[0];
    if (!codec) {
      const bytes = this.toUtf8?.(text);
      if (bytes) return { payload: bytes, isUtf8: true, codec: null, sum: payloadSum(bytes), events };
      const payload = text.toString();
      return { payload, codec: null, sum: payloadSum(payload), events };
    }
    const payload = ownBytes(codec.encode(text.toString(), place));
    const stored = JSON.parse(codec.decode(payload, place)) as Event[];
    return { payload, codec: codec.name, sum: payloadSum(payload), events: stored };
  }

  decodeEvents(payload: Payload, codec: string | null, place: PayloadPlace): Event[] {
    return this.parse(payload, codec, place) as Event[];
  }

  /** A snapshot. Plain, its checksum stands before it; a codec that must not be fooled brings its own. */
  encodeSnapshot(text: string, place: PayloadPlace): { payload: Payload; codec: string | null } {
    const codec = this.codecs[0];
    if (!codec) return { payload: `${payloadSum(text)} ${text}`, codec: null };
    return { payload: ownBytes(codec.encode(text, place)), codec: codec.name };
  }

  decodeSnapshot(payload: Payload, codec: string | null, place: PayloadPlace, verifies: boolean): unknown {
    if (codec !== null) return this.parse(payload, codec, place);
    const whole = payload as string;
    if (lacksSum({ payload, codec })) return this.parse(whole, null, place);
    const end = whole.indexOf(" ");
    const text = whole.slice(end + 1);
    if (verifies && payloadSum(text) !== Number(whole.slice(0, end))) throw changed(place);
    return this.parse(text, null, place);
  }

  /** JSON of a payload, whatever codec it was written with. */
  private parse(payload: Payload, codec: string | null, place: PayloadPlace): unknown {
    const text = codec === null ? (payload as string) : this.find(codec, place).decode(payload, place);
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new HoldfastError("EVENT_CORRUPT", `${place.stream} at ${place.seq}: the record is not JSON`, {
        hint: "Run `check` on the store, and restore it from a backup if it reports more of these.",
        cause,
        data: { ...place },
      });
    }
  }

  private find(name: string, place: PayloadPlace): PayloadCodec {
    const codec = this.codecs.find((each) => each.name === name);
    if (codec) return codec;
    throw new HoldfastError(
      "CODEC_UNKNOWN",
      `${place.stream} at ${place.seq} was written with codec ${JSON.stringify(name)}, which is not configured`,
      {
        hint: "Pass that codec (its key, its redaction) to open() as one of `codecs`.",
        data: { ...place, codec: name },
      },
    );
  }
}

/** A plain snapshot of the first form, which began at once with its text. */
export function lacksSum({ payload, codec }: Pick<StoredWrite, "payload" | "codec">): boolean {
  return codec === null && typeof payload === "string" && payload.startsWith("{");
}

/** For whoever acts on what is read: one changed byte of an amount is an amount, too. */
export function verifySum({ payload, sum }: Pick<StoredWrite, "payload" | "sum">, place: PayloadPlace): void {
  if (payloadSum(payload) !== sum) throw changed(place);
}

function changed(place: PayloadPlace): HoldfastError {
  const what = `${place.stream} at ${place.seq}: the record does not match its checksum, it was changed or damaged`;
  return new HoldfastError("EVENT_CORRUPT", what, {
    hint: "Run `check` on the store, which names every such record. Restore it from a backup, or go on with a fork of a version from before.",
    data: { ...place },
  });
}

/** A store writes them later than this, and a codec may use its buffer again. */
function ownBytes(payload: Payload): Payload {
  return typeof payload === "string" ? payload : new Uint8Array(payload);
}

let crc32: ((data: Payload) => number) | undefined;

/** Checksum as `check` compares it. What makes it is loaded with the first one: whoever only reads needs none. */
export function payloadSum(payload: Payload): number {
  crc32 ??= process.getBuiltinModule("node:zlib").crc32;
  return crc32(payload);
}
