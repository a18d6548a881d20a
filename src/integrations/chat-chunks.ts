/**
 * The chunks of one answer, in the format of the AI SDK's UI message stream, and positions in them.
 *
 * A log merges neighbouring deltas of one part, so that it is as small as the message. A position is the
 * number of chunks and the length of the last delta. It means the same to every reader, however the chunks
 * were cut on their way: `3.120` has two whole chunks and 120 characters of the third.
 *
 * An answer that is resumed after a kill is another attempt: recorded steps come again word by word, and the
 * step that was cut off is sampled anew. `Alignment` drops what a reader has already, so that it continues.
 */

/** A chunk of the AI SDK 6 or 7. Types that are not known here pass unchanged. */
export interface Chunk {
  readonly type: string;
  readonly [member: string]: unknown;
}

export interface Position {
  readonly count: number;
  readonly length: number;
}

export const START: Position = { count: 0, length: 0 };

/** The member of a chunk that is appended to what the part has. */
const DELTAS: Readonly<Record<string, { readonly text: string; readonly id: string }>> = {
  "text-delta": { text: "delta", id: "id" },
  "reasoning-delta": { text: "delta", id: "id" },
  "tool-input-delta": { text: "inputTextDelta", id: "toolCallId" },
};

/** Chunks after which an answer has no more. */
const LAST = new Set(["finish", "error", "abort"]);

export function isLast({ type }: Chunk): boolean {
  return LAST.has(type);
}

export class ChunkLog {
  readonly chunks: Chunk[];

  constructor(chunks: readonly Chunk[] = []) {
    this.chunks = [...chunks];
  }

  add(chunk: Chunk): void {
    const last = this.chunks.at(-1);
    const delta = DELTAS[chunk.type];
    if (delta && last?.type === chunk.type && last[delta.id] === chunk[delta.id]) {
      const text = `${last[delta.text]}${chunk[delta.text]}`;
      this.chunks[this.chunks.length - 1] = { ...last, ...chunk, [delta.text]: text };
    } else this.chunks.push(chunk);
  }

  /** The chunks after a position, each with the position behind it. */
  since({ count, length }: Position): { readonly chunk: Chunk; readonly position: Position }[] {
    const known = this.chunks[count - 1];
    const rest = known ? restOf(known, length) : null;
    const found = rest ? [{ chunk: rest, position: { count, length: deltaLength(known as Chunk) } }] : [];
    for (let index = count; index < this.chunks.length; index += 1) {
      const chunk = this.chunks[index] as Chunk;
      found.push({ chunk, position: { count: index + 1, length: deltaLength(chunk) } });
    }
    return found;
  }

  /** The chunks before a position. */
  upTo({ count, length }: Position): ChunkLog {
    const chunks = this.chunks.slice(0, count);
    const last = chunks.at(-1);
    const delta = last && DELTAS[last.type];
    if (delta) chunks[count - 1] = { ...last, [delta.text]: String(last[delta.text]).slice(0, length) };
    return new ChunkLog(chunks);
  }
}

function deltaLength(chunk: Chunk): number {
  const delta = DELTAS[chunk.type];
  return delta ? String(chunk[delta.text]).length : 0;
}

function restOf(chunk: Chunk, length: number): Chunk | null {
  const delta = DELTAS[chunk.type];
  if (!delta) return null;
  const text = String(chunk[delta.text]).slice(length);
  return text === "" ? null : { ...chunk, [delta.text]: text };
}

/** A text or reasoning part that the reader has, or a chunk that stands for itself. */
interface Part {
  readonly type: string;
  /** The id under which the reader knows the part. */
  readonly id: string | null;
  /** The text that was not met again yet. */
  rest: string;
  readonly isClosed: boolean;
}

const PART = /^(text|reasoning)-(start|delta|end)$/;
/** Chunks that append something each time. All others replace what they name, so they may come twice. */
const APPENDS = new Set(["start-step", "file", "source-url", "source-document"]);

/**
 * Passes the chunks of a new attempt to a reader that has some of an earlier one.
 *
 *     met again                        dropped
 *     the rest of a part               under the id that the reader knows
 *     after all that the reader has    passed
 *     other words                      null: the reader has to begin anew
 */
export class Alignment {
  private readonly parts: Part[];
  private readonly known: ReadonlySet<string>;
  private readonly calls: ReadonlySet<unknown>;
  private readonly met = new Map<string, Part>();

  constructor(sent: readonly Chunk[]) {
    this.parts = partsOf(sent);
    this.known = new Set(sent.map((chunk) => JSON.stringify(chunk)));
    this.calls = new Set(sent.map(({ toolCallId }) => toolCallId).filter((id) => id !== undefined));
  }

  /** The chunks to pass on. Null if the reader has words that this attempt does not say. */
  next(chunk: Chunk): readonly Chunk[] | null {
    const [, type = "", act] = PART.exec(chunk.type) ?? [];
    if (act !== undefined) return this.nextText(chunk, type, act);
    if (APPENDS.has(chunk.type)) {
      const part = this.parts.shift();
      if (!part) return [chunk];
      return part.type === keyOf(chunk) ? [] : null;
    }
    if (chunk.type === "finish-step" && this.parts.length > 0) return [];
    const isInput = chunk.type === "tool-input-start" || chunk.type === "tool-input-delta";
    if (isInput && this.calls.has(chunk["toolCallId"])) return [];
    if (isLast(chunk) || !this.known.has(JSON.stringify(chunk))) return this.isBehind(chunk) ? null : [chunk];
    return [];
  }

  /** The answer ends before the reader has met all that it has. */
  private isBehind({ type }: Chunk): boolean {
    return type === "finish" && this.parts.length > 0;
  }

  private nextText(chunk: Chunk, type: string, act: string): readonly Chunk[] | null {
    const key = `${type} ${String(chunk["id"])}`;
    if (act === "start") {
      const part = this.parts.shift();
      if (!part) {
        this.met.delete(key);
        return [chunk];
      }
      if (part.type !== type) return null;
      this.met.set(key, part);
      return [];
    }
    const part = this.met.get(key);
    if (!part) return [chunk];
    const id = part.id as string;
    if (act === "end") {
      this.met.delete(key);
      if (part.rest !== "") return null;
      return part.isClosed ? [] : [{ ...chunk, id }];
    }
    const delta = String(chunk["delta"]);
    if (part.rest.startsWith(delta)) {
      part.rest = part.rest.slice(delta.length);
      return [];
    }
    if (!delta.startsWith(part.rest) || part.isClosed) return null;
    const said = delta.slice(part.rest.length);
    part.rest = "";
    return [{ ...chunk, id, delta: said }];
  }
}

function keyOf({ type, url, sourceId }: Chunk): string {
  return type === "start-step" ? type : `${type} ${String(url ?? sourceId)}`;
}

function partsOf(sent: readonly Chunk[]): Part[] {
  const parts: Part[] = [];
  const open = new Map<string, number>();
  for (const chunk of sent) {
    const [, type = "", act] = PART.exec(chunk.type) ?? [];
    const id = String(chunk["id"]);
    const at = open.get(`${type} ${id}`);
    const part = at === undefined ? undefined : parts[at];
    if (act === "start") {
      open.set(`${type} ${id}`, parts.length);
      parts.push({ type, id, rest: "", isClosed: false });
    } else if (act === "delta" && part) part.rest += String(chunk["delta"]);
    else if (act === "end" && part && at !== undefined) parts[at] = { ...part, isClosed: true };
    else if (APPENDS.has(chunk.type)) parts.push({ type: keyOf(chunk), id: null, rest: "", isClosed: true });
  }
  return parts;
}
