/**
 * The shape of every line of a portable file. A file comes from anywhere: names, numbers and sizes are
 * checked before the import writes anything.
 */

import * as z from "zod";
import { isId, isSessionId, streamId, streamKind, streamName } from "../../model/names.ts";

/** SQLite numbers the events of a stream with 28 bits. */
const seq = z.int().min(0).max(268_435_455);
const place = z.int().min(1).max(268_435_455);
/** An import lives through every missing generation, and gives a stand-in as many events as `before` says. */
const generation = z.int().min(1).max(2_000_000_000);
const earlier = z.int().min(1).max(1_000_000);
const time = z.int().min(0).max(8_640_000_000_000_000);

const visible = (most: number) =>
  z
    .string()
    .min(1)
    .max(most)
    .regex(/^\P{Cc}*$/u, "has control characters");
const stream = z.string().max(257).refine(isStreamName, "is not the name of a stream");

function isStreamName(name: string): boolean {
  const [kind, id] = [streamKind(name), streamId(name)];
  return isId(kind) && (isId(id) || (isSessionId(id) && kind !== "goal")) && streamName(kind, id) === name;
}

const keysAt = (at: z.ZodInt) => z.array(z.tuple([visible(2_000), at]));

const piece = {
  text: z.string().optional(),
  bytes: z.base64().optional(),
  size: z.int().min(0).max(2_147_483_647).optional(),
  more: z.literal(true).optional(),
};

/** By the field that tells one kind of line from the others. */
const LINES = {
  namespace: z.strictObject({ namespace: z.string().refine(isId, "is not a namespace") }),
  stream: z.strictObject({ stream, parent: stream.nullable(), base: seq, generation, hidden: z.boolean() }),
  ends: z.strictObject({
    ends: seq,
    openCalls: z.int().min(0),
    held: keysAt(place),
    freed: keysAt(place),
    before: keysAt(earlier),
  }),
  gone: z.strictObject({ gone: stream, generation, before: keysAt(earlier) }),
  write: z.strictObject({
    write: z
      .strictObject({
        first: place,
        last: place,
        batch: visible(300),
        codec: visible(100).nullable(),
        sum: z.int().min(0).max(4_294_967_295),
        at: time,
      })
      .refine(({ first, last }) => first <= last, "ends before it begins"),
    ...piece,
  }),
  artifact: z.strictObject({ artifact: z.string().regex(/^[0-9a-f]{64}$/, "is not a hash"), ...piece }),
  goesOn: z.strictObject({ goesOn: z.literal(true), ...piece }),
  end: z.strictObject({
    end: z.strictObject({ streams: z.int().min(0), writes: z.int().min(0), sha256: z.string().max(64) }),
  }),
  holdfast: z.strictObject({ holdfast: z.literal("export"), version: z.int(), at: z.string().max(100) }),
};

/** Names the first problem of a line; null if there is none. The message has no text of the file. */
export function lineProblem(line: unknown): string | null {
  if (typeof line !== "object" || line === null || Array.isArray(line)) return "a line of it is no object";
  const name = (Object.keys(LINES) as (keyof typeof LINES)[]).find((each) => Object.hasOwn(line, each));
  if (name === undefined) return "it has a line that no export has";
  const issue = LINES[name].safeParse(line).error?.issues[0];
  if (!issue) return null;
  const path = issue.path.map(String).join(".");
  return `the line of its ${name}: ${path === "" ? "" : `${path} `}${issue.message}`;
}
