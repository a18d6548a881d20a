/** Payloads on their way to the store and back: codecs, checksums, and the forms of a snapshot. */

import { type ErrorCode, HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { JsonText } from "../model/json-text.ts";
import type { Event } from "../model/stream/index.ts";
import type { Payload, Store, StoredWrite } from "../store.ts";

/** The place of a payload. Encryption binds to it, so that a row moved elsewhere does not decrypt. */
export interface PayloadPlace {
  readonly namespace: string;
  readonly stream: string;
  /** The `seq` of the payload's first event, or of the snapshot. */
  readonly seq: number;
}

/**
 * Redaction, or encryption of your own, between journal and store. It sees all messages, arguments, results
 * and plans. Fields that lists and views show (titles, goals, labels, names of tools) and the bytes of
 * artifacts bypass it and stay readable: to encrypt a store, use `encryption: aesGcm()`.
 *
 * `decode(encode(text))` may differ from `text`, as it does for a redaction; memory then holds what was
 * stored. Each payload names its codec, so a store may hold payloads of several. An unknown name is the error
 * CODEC_UNKNOWN.
 *
 * @example
 * const redacting: PayloadCodec = {
 *   name: "no-keys",
 *   encode: (text) => text.replaceAll(/sk-\w+/g, "sk-****"),
 *   decode: (payload) => payload as string,
 * };
 * await open("./state.db", { codecs: [redacting] });
 */
export interface PayloadCodec {
  readonly name: string;
  /** `decode(encode(text))` is always `text`. Example: true for encryption, absent for a redaction. */
  readonly isExact?: boolean;
  /**
   * `text` is JSON: an array of events, or an object that is a snapshot of the whole state. If it throws for
   * a snapshot, that costs a warning and a longer load; if it throws for events, the append fails.
   */
  encode(text: string, place: PayloadPlace): Payload;
  decode(payload: Payload, place: PayloadPlace): string;
}

export interface Encoded {
  readonly payload: Payload;
  /** The payload is text, given as UTF-8 bytes. */
  readonly isUtf8?: true;
  readonly codec: string | null;
  readonly sum: number;
  /** The events as a reader will see them. */
  readonly events: readonly Event[];
}

/** The part of an encrypted store that the journal uses (`encryption/encrypted-store.ts`). */
export interface StoreCipher {
  readonly codec: PayloadCodec;
  /** The folder of the keys. */
  readonly ring: string;
  /** Encrypts an artifact. Only a reader that has `secret` can decrypt it. */
  sealArtifact(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly secret: string };
  openArtifact(bytes: Uint8Array, secret: string): Uint8Array;
  /** A title or name; null if it cannot be decrypted. */
  openText(place: Omit<PayloadPlace, "seq">, field: string, text: string): string | null;
  /** Destroys the keys of a stream that is gone. False if there are none. */
  forget(place: Omit<PayloadPlace, "seq">): boolean;
  /** Wraps all keys by the current master key. */
  rewrap(): { readonly keys: number; readonly rewrapped: number };
}

/** A registered symbol: a configuration file may import another copy of this package than the command. */
export const CIPHER = Symbol.for("holdfast.cipher");

export function cipherOf(store: Store): StoreCipher | undefined {
  return (store as { readonly [CIPHER]?: StoreCipher })[CIPHER];
}

/** The payloads of a store: encrypted if the store is, after the first of `codecs` has had its turn. */
export function payloadsOf(
  store: Store,
  codecs: readonly PayloadCodec[] = [],
  prefersUtf8 = false,
): Payloads {
  const cipher = cipherOf(store)?.codec;
  if (!cipher) return new Payloads(codecs, prefersUtf8);
  // Each combination has a name of its own, so that records of every earlier setting can be read.
  const both = codecs.map((inner) => encryptedAfter(inner, cipher));
  return new Payloads([...both, cipher, ...codecs], false);
}

function encryptedAfter(inner: PayloadCodec, cipher: PayloadCodec): PayloadCodec {
  return {
    name: `${cipher.name}+${inner.name}`,
    isExact: inner.isExact === true,
    encode: (text, place) => {
      const payload = inner.encode(text, place);
      if (typeof payload === "string") return cipher.encode(payload, place);
      throw new Error(`codec ${inner.name} makes bytes (with encryption, a codec must make text)`);
    },
    decode: (payload, place) => inner.decode(cipher.decode(payload, place), place),
  };
}

/** Encodes with `codecs[0]` and decodes with any of them. Without codecs, payloads are JSON text. */
export class Payloads {
  private readonly codecs: readonly PayloadCodec[];
  private readonly prefersUtf8: boolean;

  /** `prefersUtf8`: the store takes text as UTF-8 bytes, which are made faster than a string. */
  constructor(codecs: readonly PayloadCodec[], prefersUtf8 = false) {
    this.codecs = codecs;
    this.prefersUtf8 = prefersUtf8;
  }

  get hasNoCodec(): boolean {
    return this.codecs.length === 0;
  }

  /** True if readers get every text exactly as it was written, because no codec can have changed it. */
  get isExact(): boolean {
    return this.codecs.every((codec) => codec.isExact);
  }

  /** `text` is the JSON of `events`. */
  encodeEvents(events: readonly Event[], text: JsonText, place: PayloadPlace): Encoded {
    const codec = this.codecs[0];
    if (!codec) {
      const bytes = this.prefersUtf8 ? text.toUtf8() : undefined;
      if (bytes) return { payload: bytes, isUtf8: true, codec: null, sum: payloadSum(bytes), events };
      const payload = text.toString();
      return { payload, codec: null, sum: payloadSum(payload), events };
    }
    const payload = ownBytes(codec.encode(text.toString(), place));
    const stored = codec.isExact ? events : (JSON.parse(codec.decode(payload, place)) as Event[]);
    return { payload, codec: codec.name, sum: payloadSum(payload), events: stored };
  }

  decodeEvents(payload: Payload, codec: string | null, place: PayloadPlace): Event[] {
    return this.parse(payload, codec, place) as Event[];
  }

  /** `<checksum> <text>` without a codec. A codec that must detect tampering brings a checksum of its own. */
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
    if (verifies && payloadSum(text) !== Number(whole.slice(0, end))) throw changedRecord(place);
    return this.parse(text, null, place);
  }

  private parse(payload: Payload, codec: string | null, place: PayloadPlace): unknown {
    const text = codec === null ? (payload as string) : this.decode(this.find(codec, place), payload, place);
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

  /** A wrong key fails in the codec. The record is whole, so this is no corruption. */
  private decode(codec: PayloadCodec, payload: Payload, place: PayloadPlace): string {
    try {
      return codec.decode(payload, place);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      const what = `${place.stream} at ${place.seq}: codec ${JSON.stringify(codec.name)} failed (${why})`;
      throw new HoldfastError("CODEC_FAILED", what, {
        hint: isHoldfastError(cause)
          ? cause.hint
          : "Configure the codec with the key that wrote this record.",
        cause,
        data: { ...place, codec: codec.name },
      });
    }
  }

  private find(name: string, place: PayloadPlace): PayloadCodec {
    const codec = this.codecs.find((each) => each.name === name);
    if (codec) return codec;
    throw new HoldfastError(
      "CODEC_UNKNOWN",
      `${place.stream} at ${place.seq}: codec ${JSON.stringify(name)} is not configured`,
      {
        hint:
          "Pass what wrote it (`encryption` with its key, or the codec in `codecs`) to open(), " +
          "or set it in holdfast.config.ts.",
        data: { ...place, codec: name },
      },
    );
  }
}

/** True for a snapshot in the first format, which has no codec and no checksum before its text. */
export function lacksSum({ payload, codec }: Pick<StoredWrite, "payload" | "codec">): boolean {
  return codec === null && typeof payload === "string" && payload.startsWith("{");
}

/** Throws unless a record matches its checksum. An amount with one changed digit is still valid JSON. */
export function verifySum({ payload, sum }: Pick<StoredWrite, "payload" | "sum">, place: PayloadPlace): void {
  if (payloadSum(payload) !== sum) throw changedRecord(place);
}

function changedRecord(place: PayloadPlace): HoldfastError {
  const message = `${place.stream} at ${place.seq}: the record was changed or damaged (checksum mismatch)`;
  return new HoldfastError("EVENT_CORRUPT", message, {
    hint:
      "Run `check` on the store, which lists every such record. Restore it from a backup, " +
      "or fork the session from a version before the damage.",
    data: { ...place },
  });
}

/** Copies bytes of a codec: the store writes them later, when the codec may have reused its buffer. */
function ownBytes(payload: Payload): Payload {
  return typeof payload === "string" ? payload : new Uint8Array(payload);
}

let crc32: ((data: Payload) => number) | undefined;

/** The CRC-32 that `check` compares. zlib is loaded on first use, because a mere reader does not need it. */
export function payloadSum(payload: Payload): number {
  crc32 ??= process.getBuiltinModule("node:zlib").crc32;
  return crc32(payload);
}

const UNDECODABLE: readonly ErrorCode[] = [
  ...(["CODEC_UNKNOWN", "CODEC_FAILED"] as const),
  ...(["EVENT_CORRUPT", "EVENT_UNKNOWN", "EVENT_TOO_NEW", "BLOCK_UNKNOWN"] as const),
];

/** True if one stream cannot be read: its codec is missing, or a record is damaged or of a later release. */
export function isUndecodable(error: unknown): error is HoldfastError {
  return isHoldfastError(error) && UNDECODABLE.includes(error.code);
}
