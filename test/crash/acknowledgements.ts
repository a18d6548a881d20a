import { openSync, readFileSync, writeSync } from "node:fs";
import { digest, type Note } from "./tally.ts";

/**
 * The acknowledgements that a writer got, kept outside the store: one line each, written after the promise
 * resolved. A line that a kill cut off does not count; each writer starts with an empty line, so that it
 * stands alone. `removing` is the only intent: from then on a stream may be gone.
 */
export type Acknowledgement =
  | { readonly of: "append"; readonly batch: string; readonly writes: readonly AcknowledgedWrite[] }
  | { readonly of: "artifact"; readonly hash: string }
  | { readonly of: "claim"; readonly key: string; readonly stream: string; readonly seq: number }
  | { readonly of: "lease"; readonly name: string; readonly token: number }
  | { readonly of: "removing" | "removed"; readonly stream: string };

export interface AcknowledgedWrite {
  readonly stream: string;
  /** Seq of its last event. */
  readonly last: number;
  readonly digests: readonly string[];
}

export type Acknowledge = (said: Acknowledgement) => void;

/** A write by `write(2)` stays in the kernel when the process dies. */
export function acknowledgeTo(file: string): Acknowledge {
  const descriptor = openSync(file, "a");
  writeSync(descriptor, "\n");
  return (said) => {
    writeSync(descriptor, `${JSON.stringify(said)}\n`);
  };
}

export function readAcknowledgements(file: string): Acknowledgement[] {
  const lines = readFileSync(file, { encoding: "utf8", flag: "a+" }).split("\n");
  return lines.slice(0, -1).flatMap((line, place) => {
    if (line === "") return [];
    try {
      return [JSON.parse(line) as Acknowledgement];
    } catch (error) {
      if (lines[place + 1] !== "") throw error;
      return [];
    }
  });
}

export function acknowledgedWrite(stream: string, last: number, notes: readonly Note[]): AcknowledgedWrite {
  return { stream, last, digests: notes.map(digest) };
}
