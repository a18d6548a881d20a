import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import type { Store } from "../store.ts";

/**
 * Large bytes, stored once by content hash. Put first, refer afterwards: an append that names an artifact which
 * is not there is refused, so a log never refers to bytes that a crash kept from being stored. What nobody refers
 * to is collected later, but never while it is young: its reference may be on the way.
 */

/** Stores the bytes durably and returns their hash. */
export async function putArtifact(
  store: Store,
  namespace: string,
  bytes: Uint8Array,
  at: number,
): Promise<string> {
  // A store writes them later than this, and the caller may use its buffer again.
  const own = new Uint8Array(bytes);
  const hash = sha256(own);
  await store.put({ of: "artifact", namespace, hash, bytes: own, at });
  return hash;
}

/** The bytes, checked against their name. */
export async function getArtifact(store: Store, namespace: string, hash: string): Promise<Uint8Array> {
  const blob = await store.get({ of: "artifact", namespace, hash });
  if (!blob) {
    throw new HoldfastError("ARTIFACT_MISSING", `artifact ${hash} is not in ${store.address}`, {
      hint: "It was never stored here, or it was collected after everything that referred to it was removed.",
      data: { hash },
    });
  }
  const bytes = blob.payload as Uint8Array;
  if (sha256(bytes) !== hash) {
    throw new HoldfastError("ARTIFACT_CORRUPT", `artifact ${hash} does not match its hash`, {
      hint: "The medium changed it. Restore the store from a backup; `check` lists what else is damaged.",
      data: { hash },
    });
  }
  return bytes;
}
