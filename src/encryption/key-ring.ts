/**
 * The key ring: a folder outside the store with a random key for each stream, wrapped by a master key.
 *
 *     <ring>/store                     one key for artifacts, and the proof that a master key is right
 *     <ring>/<stream>/<id>             a key of a stream; <stream> is a hash of namespace and name
 *     <ring>/<stream>/<id>.erased      the same while its stream is being erased; still decrypts
 *
 * A file has one line, `<master> <wrapped key>`. The id of the key is in everything that it encrypted, so a
 * stream may have several keys, and two processes that create one at once need no lock.
 *
 *     create   file synced, named, folder synced, and only then used: no record lacks its key
 *     erase    renamed, stream removed, overwritten, deleted. After a crash in between, erase again.
 *              A writer that finds its key renamed creates another, which this erase does not touch
 *     rewrap   a line is appended and synced, then the line before it is blanked. Either line decrypts.
 *              A file that was erased meanwhile is not created again
 *
 * A backup of the store has no part of this folder. So once a key is deleted here, no copy of the store
 * shows the stream, old ones included. A copy of this folder undoes that: keep only its latest.
 */

import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";

export const ID_BYTES = 12;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const STORE_KEY = "store";
const ERASED = ".erased";
const KEY_FILE = /^[0-9a-f]{24}(\.erased)?$/;
const STREAM_FOLDER = /^[0-9a-f]{40}$/;
/** Keys in memory. A list of more streams than this reads their files again. */
const MOST_CACHED = 10_000;

export interface StreamPlace {
  readonly namespace: string;
  readonly stream: string;
}

/** A key with the id by which a reader finds it. */
export interface StreamKey {
  readonly id: Buffer;
  readonly key: Buffer;
}

/** `nonce · ciphertext · tag`. `about` is not encrypted, but must be the same to decrypt. */
export function encrypt(key: Uint8Array, plain: string | Uint8Array, about: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(about));
  const body = typeof plain === "string" ? cipher.update(plain, "utf8") : cipher.update(plain);
  return Buffer.concat([nonce, body, cipher.final(), cipher.getAuthTag()]);
}

export function decrypt(key: Uint8Array, box: Uint8Array, about: string): Buffer {
  const end = box.length - TAG_BYTES;
  if (end < NONCE_BYTES) throw new Error("it is too short");
  const nonce = box.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(about)).setAuthTag(box.subarray(end));
  return Buffer.concat([decipher.update(box.subarray(NONCE_BYTES, end)), decipher.final()]);
}

export interface MasterKeys {
  readonly keys: ReadonlyMap<string, Buffer>;
  /** The key that wraps new keys. */
  readonly current: string;
}

export class KeyRing {
  readonly folder: string;
  readonly #masters: MasterKeys;
  /** By path. */
  readonly #known = new Map<string, Buffer>();
  /** The path of the key with which this process encrypts, by folder of the stream. */
  readonly #chosen = new Map<string, string>();
  #storeKey: Buffer | null = null;

  constructor(folder: string, masters: MasterKeys) {
    this.folder = folder;
    this.#masters = masters;
  }

  /** The key of the whole store. Created on first use, by whichever process is first. */
  storeKey({ creates }: { creates: boolean }): Buffer {
    if (this.#storeKey) return this.#storeKey;
    const path = join(this.folder, STORE_KEY);
    if (creates && !existsSync(path)) this.#create(path);
    this.#storeKey = this.#read(path);
    return this.#storeKey;
  }

  /** The key to encrypt with. It is durable when this returns. */
  keyToWrite(place: StreamPlace): StreamKey {
    // A wrong master key is found out here, before it has wrapped anything.
    this.storeKey({ creates: true });
    const folder = this.#folderOf(place);
    const chosen = this.#chosen.get(folder);
    // Looked up each time: another process may have erased it.
    if (chosen !== undefined && existsSync(chosen)) return keyIn(chosen, this.#read(chosen));
    const [first] = keyFilesIn(folder).filter((name) => !name.endsWith(ERASED));
    const path = join(folder, first ?? randomBytes(ID_BYTES).toString("hex"));
    if (first === undefined) this.#create(path);
    const key = this.#read(path);
    remember(this.#chosen, folder, path);
    return keyIn(path, key);
  }

  /** The key with this id. Throws if it was erased, or if its master key is not given. */
  keyToRead(place: StreamPlace, id: Uint8Array): Buffer {
    const path = join(this.#folderOf(place), Buffer.from(id).toString("hex"));
    const known = this.#known.get(path);
    if (known) return known;
    return this.#read(existsSync(path) || !existsSync(path + ERASED) ? path : path + ERASED);
  }

  /** Puts the keys of a stream aside. `finish` destroys them, `undo` brings them back. */
  beginErase(place: StreamPlace): { readonly count: number; finish(): void; undo(): void } {
    const folder = this.#folderOf(place);
    for (const name of keyFilesIn(folder).filter((each) => !each.endsWith(ERASED))) {
      renameSync(join(folder, name), join(folder, name + ERASED));
    }
    const aside = keyFilesIn(folder)
      .filter((name) => name.endsWith(ERASED))
      .map((name) => join(folder, name));
    if (aside.length > 0) syncFolder(folder);
    return {
      count: aside.length,
      finish: () => {
        for (const path of aside) this.#destroy(path);
        if (aside.length > 0) syncFolder(folder);
      },
      undo: () => {
        for (const path of aside) if (existsSync(path)) renameSync(path, withoutMark(path));
      },
    };
  }

  /** Wraps every key by the current master key. No record changes. */
  rewrap(): { readonly keys: number; readonly rewrapped: number } {
    const paths = existsSync(this.folder) ? this.#everyKey() : [];
    let rewrapped = 0;
    for (const path of paths) if (this.#rewrapOne(path)) rewrapped += 1;
    return { keys: paths.length, rewrapped };
  }

  #everyKey(): string[] {
    const streams = readdirSync(this.folder).filter((name) => STREAM_FOLDER.test(name));
    const files = streams.flatMap((stream) =>
      keyFilesIn(join(this.folder, stream)).map((name) => join(this.folder, stream, name)),
    );
    const store = join(this.folder, STORE_KEY);
    return existsSync(store) ? [store, ...files] : files;
  }

  #rewrapOne(path: string): boolean {
    const { current } = this.#masters;
    const text = readOrNull(path);
    if (text === null) return false;
    const whole = wrappings(text);
    if (whole.length === 1 && whole[0]?.master === current) return false;
    const line = this.#wrap(path, this.#unwrap(path, text));
    try {
      // Without O_CREAT: a key that was erased meanwhile stays erased.
      onFile(path, constants.O_WRONLY | constants.O_APPEND, (fd) => {
        writeSync(fd, `${text === "" || text.endsWith("\n") ? "" : "\n"}${line}`);
      });
      onFile(path, constants.O_WRONLY, (fd) => {
        writeSync(fd, text.replaceAll(/[^\n]/g, " "), 0);
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      return false;
    }
    return true;
  }

  #create(path: string): void {
    try {
      this.#writeKey(path);
    } catch (error) {
      const { code = String(error) } = error as NodeJS.ErrnoException;
      throw new HoldfastError("STORE_IO", `key ring ${this.folder}: a key cannot be written (${code})`, {
        hint: "Nothing was written. Check the owner, the permissions and the space of that folder.",
        cause: error,
        data: { ring: this.folder },
      });
    }
  }

  #writeKey(path: string): void {
    const folder = dirname(path);
    const isNew = !existsSync(folder);
    if (!existsSync(this.folder)) this.#createFolder();
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (isNew) syncFolder(dirname(folder));
    const temporary = `${path}.${randomBytes(6).toString("hex")}.new`;
    const line = this.#wrap(path, randomBytes(KEY_BYTES));
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    onFile(temporary, flags, (fd) => void writeSync(fd, line));
    try {
      linkSync(temporary, path);
      unlinkSync(temporary);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // Without hard links the last of two first writers would win, so the name is tested before.
      if (code !== "EEXIST" && !existsSync(path)) renameSync(temporary, path);
      else unlinkSync(temporary);
    }
    syncFolder(folder);
  }

  /** Keys must not be committed: git keeps what an erase deletes. */
  #createFolder(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    writeFileSync(join(this.folder, ".gitignore"), "*\n");
    syncFolder(dirname(this.folder));
  }

  #read(path: string): Buffer {
    const known = this.#known.get(path);
    if (known) return known;
    const text = readOrNull(path);
    if (text === null) throw lacksKey(this.folder, path);
    const key = this.#unwrap(path, text);
    remember(this.#known, path, key);
    return key;
  }

  #wrap(path: string, key: Buffer): string {
    const { keys, current } = this.#masters;
    const wrapped = encrypt(keys.get(current) as Buffer, key, this.#aboutOf(path));
    return `${current} ${wrapped.toString("base64")}\n`;
  }

  #unwrap(path: string, text: string): Buffer {
    const found = wrappings(text).reverse();
    for (const { master, wrapped } of found) {
      const key = this.#masters.keys.get(master);
      if (!key) continue;
      try {
        return decrypt(key, wrapped, this.#aboutOf(path));
      } catch {
        // Another line may decrypt; if none does, the error below names the master key.
      }
    }
    throw cannotUnwrap(this.folder, found[0]?.master, this.#masters);
  }

  /** Binds a key to its place, so that a file moved to another stream does not decrypt. */
  #aboutOf(path: string): string {
    return `holdfast key ring\n${withoutMark(path)
      .slice(this.folder.length + 1)
      .replaceAll("\\", "/")}`;
  }

  #folderOf({ namespace, stream }: StreamPlace): string {
    return join(this.folder, sha256(JSON.stringify([namespace, stream])).slice(0, 40));
  }

  #destroy(path: string): void {
    this.#known.delete(path);
    this.#known.delete(withoutMark(path));
    try {
      const { size } = statSync(path);
      onFile(path, constants.O_WRONLY, (fd) => void writeSync(fd, Buffer.alloc(size)));
      unlinkSync(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

function keyIn(path: string, key: Buffer): StreamKey {
  return { id: Buffer.from(path.slice(-2 * ID_BYTES), "hex"), key };
}

function withoutMark(path: string): string {
  return path.endsWith(ERASED) ? path.slice(0, -ERASED.length) : path;
}

function keyFilesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => KEY_FILE.test(name))
      .sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Lines that are blank, or that a crash cut off, are left out. */
function wrappings(text: string): { master: string; wrapped: Buffer }[] {
  return text.split("\n").flatMap((line) => {
    const [, master, wrapped] = /^([\w.-]+) ([A-Za-z0-9+/]{80})$/.exec(line) ?? [];
    return master !== undefined && wrapped !== undefined
      ? [{ master, wrapped: Buffer.from(wrapped, "base64") }]
      : [];
  });
}

function remember<Value>(cache: Map<string, Value>, key: string, value: Value): void {
  if (cache.size >= MOST_CACHED) cache.clear();
  cache.set(key, value);
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function onFile(path: string, flags: number, act: (fd: number) => void): void {
  const fd = openSync(path, flags, 0o600);
  try {
    act(fd);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function syncFolder(folder: string): void {
  if (process.platform === "win32") return;
  onFile(folder, constants.O_RDONLY, () => undefined);
}

function lacksKey(folder: string, path: string): HoldfastError {
  const isThere = existsSync(folder);
  const what = isThere
    ? `key ring ${folder}: it does not have this key (it was erased, or is in another ring)`
    : `key ring ${folder}: there is no such folder`;
  return new HoldfastError("CODEC_FAILED", what, {
    hint: isThere
      ? "An erased session stays unreadable. Otherwise name the ring that was used to write: `ring`."
      : "Name the ring that was used to write (`ring`), or bring the folder back from its copy.",
    data: { ring: folder, key: path.slice(folder.length + 1) },
  });
}

function cannotUnwrap(folder: string, master: string | undefined, { keys }: MasterKeys): HoldfastError {
  const data = { ring: folder, key: master ?? null };
  if (master === undefined) {
    return new HoldfastError("CODEC_FAILED", `key ring ${folder}: a key file is damaged`, {
      hint: "Bring the file back from a copy of the ring.",
      data,
    });
  }
  const what = keys.has(master)
    ? `key ring ${folder}: key ${master} is not the one that it was made with`
    : `key ring ${folder}: it was made with key ${master}, which is not given`;
  return new HoldfastError("CODEC_FAILED", what, {
    hint: `Set key ${master} in \`encryption: aesGcm({ keys })\` to the one that wrote this store.`,
    data,
  });
}
