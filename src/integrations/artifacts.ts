import { HoldfastError } from "../model/errors.ts";

/** The store for the bytes of files. A `Holdfast` is one. */
export interface Artifacts {
  putArtifact(bytes: Uint8Array): Promise<string>;
  getArtifact(hash: string): Promise<Uint8Array>;
}

/** Refuses files, for a program that passes no store. `example` shows how to pass one. */
export function noArtifacts(example: string): Artifacts {
  const refuse = (): never => {
    throw new HoldfastError("INPUT_INVALID", "a message has a file, and there is no store for its bytes", {
      hint: `Pass the Holdfast of the session: ${example}.`,
    });
  };
  return { putArtifact: refuse, getArtifact: refuse };
}
