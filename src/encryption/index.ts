/** Encryption of a whole store: AES-256-GCM, a key per session or goal, master keys that rotate. */

import { isAbsolute, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { cipherOf } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { checkOptions } from "../model/options.ts";
import type { Store } from "../store.ts";
import { EncryptedStore, ringBeside } from "./encrypted-store.ts";
import { KeyRing, type MasterKeys } from "./key-ring.ts";

/** Encrypts everything on its way to a store. `aesGcm()` makes one; see `docs/guides/security.md`. */
export interface Encryption {
  /** The store as the rest of Holdfast must see it. */
  protect(store: Store): Store;
}

/** Options of `aesGcm()`. */
export interface AesGcmOptions {
  /**
   * Master keys by a name of your choice: 32 bytes, as base64, hex or bytes. All of them read. Example:
   * `keys: { "2026": process.env.HOLDFAST_KEY }`.
   */
  readonly keys: Readonly<Record<string, string | Uint8Array | undefined>>;
  /** The key that writes. Needed if there are several. Example: `current: "2026"`. */
  readonly current?: string;
  /**
   * The folder with the keys of the sessions, wrapped by a master key. Default: `<store>.keys`, beside a
   * store on a disk. A server needs one that all its clients reach. Example: `ring: "/var/lib/app/keys"`.
   */
  readonly ring?: string | URL;
}

const OPTIONS = { keys: "object", current: "text", ring: null } as const;
const NAME = /^[\w.-]{1,64}$/;
const KEY_BYTES = 32;

/**
 * AES-256-GCM for a whole store: events, artifacts, titles and names. Each session and goal has a key of its
 * own in a folder beside the store, so that `erase` also makes it unreadable in old backups.
 *
 * @example
 * // holdfast.config.mjs
 * export default { encryption: aesGcm({ keys: { a: process.env.HOLDFAST_KEY } }) };
 */
export function aesGcm(options: AesGcmOptions): Encryption {
  checkOptions("aesGcm", options, OPTIONS);
  const masters = masterKeys(options);
  const ring = options.ring === undefined ? null : ringFolder(options.ring);
  return {
    protect(store) {
      // Memory has nothing at rest, and a store that is protected already stays as it is.
      if (store.address === "memory" || cipherOf(store)) return store;
      return new EncryptedStore(store, new KeyRing(ring ?? resolve(ringBeside(store.address)), masters));
    },
  };
}

function masterKeys({ keys: given, current }: AesGcmOptions): MasterKeys {
  const names = Object.keys(given ?? {});
  const keys = new Map(names.map((name) => [name, masterKey(name, given[name])]));
  const [only, other] = names;
  const chosen = current ?? (other === undefined ? only : undefined);
  if (chosen !== undefined && keys.has(chosen)) return { keys, current: chosen };
  const hint = 'Write: aesGcm({ keys: { "2026": process.env.HOLDFAST_KEY }, current: "2026" })';
  throw invalid(
    names.length === 0
      ? "encryption: there is no key"
      : `encryption: current is ${JSON.stringify(current)} (expected one of: ${names.join(", ")})`,
    hint,
  );
}

function masterKey(name: string, value: string | Uint8Array | undefined): Buffer {
  if (!NAME.test(name)) {
    throw invalid(
      `encryption: ${JSON.stringify(name)} is no name for a key`,
      "Use letters, digits, . _ and -",
    );
  }
  if (value === undefined || value.length === 0) {
    throw invalid(
      `encryption: key ${name} is not set`,
      "Set the variable that holds it where this process starts, hooks and servers included.",
    );
  }
  const bytes = typeof value === "string" ? fromText(value.trim()) : Buffer.from(value);
  if (bytes.length === KEY_BYTES) return bytes;
  throw invalid(`encryption: key ${name} is not 32 bytes`, "Make one: openssl rand -base64 32");
}

function fromText(text: string): Buffer {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, "hex");
  return /^[\w+/-]{43}=?$/.test(text) ? Buffer.from(text, "base64") : Buffer.alloc(0);
}

/** An absolute path: commands and hooks run in any folder. */
function ringFolder(ring: string | URL): string {
  const path = ring instanceof URL ? fileURLToPath(ring) : ring;
  if (typeof path === "string" && isAbsolute(path)) return path.replace(/[/\\]+$/, "");
  throw invalid(
    `encryption: ring ${JSON.stringify(path)} is not an absolute path`,
    'Write: ring: new URL("./keys/", import.meta.url), or an absolute path.',
  );
}

function invalid(message: string, hint: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", message, { hint });
}
