/**
 * A store whose content is unreadable without the key. The journal encrypts payloads by the codec, so that
 * the hash chain covers the stored bytes. This wrapper does the rest: titles of streams and names of items.
 *
 *     encrypted   events, snapshots, artifacts, titles (session, goal statement), names of items (task,
 *                 decision, blocker, checkpoint label, tool)
 *     readable    ids and names of streams, goals, calls and leases, statuses, times, sizes, budgets, keys of
 *                 calls, owners of leases
 *
 * A title that cannot be decrypted is null, so that a list shows every stream. Rows of `moving` stay as they
 * are stored: a move copies what is encrypted and needs no key.
 */

import { createHmac, randomBytes } from "node:crypto";
import { CIPHER, type PayloadPlace, type StoreCipher } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type {
  AppendOutcome,
  Batch,
  Blob,
  GetRequest,
  Item,
  ItemRow,
  LeaseOutcome,
  LeaseRequest,
  ListRequest,
  ListRows,
  Moving,
  Page,
  Payload,
  Problem,
  PutRequest,
  ReadPage,
  ReadRequest,
  RemoveOutcome,
  RemoveRequest,
  Rewind,
  Store,
  StreamFacets,
  StreamRow,
  WatchRequest,
  Write,
} from "../store.ts";
import { decrypt, encrypt, ID_BYTES, type KeyRing, type StreamPlace } from "./key-ring.ts";

const FORMAT = 1;
/** Begins every encrypted title and name. */
const MARK = "encrypted:";
const SECRET_BYTES = 16;

class Cipher implements StoreCipher {
  readonly ring: string;
  readonly #keys: KeyRing;

  constructor(keys: KeyRing) {
    this.ring = keys.folder;
    this.#keys = keys;
  }

  readonly codec = {
    name: "aes-256-gcm",
    isExact: true,
    encode: (text: string, place: PayloadPlace): Payload => this.#seal(place, text, aboutPayload(place)),
    decode: (payload: Payload, place: PayloadPlace): string => {
      if (typeof payload === "string") throw new Error("it is text, not bytes");
      return this.#open(place, payload, aboutPayload(place)).toString("utf8");
    },
  } as const;

  /** The key depends on `secret`, which only the encrypted events hold: without them it is lost. */
  sealArtifact(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly secret: string } {
    const secret = randomBytes(SECRET_BYTES).toString("hex");
    const key = artifactKey(this.#keys.storeKey({ creates: true }), secret);
    return { bytes: Buffer.concat([Buffer.of(FORMAT), encrypt(key, bytes, "artifact")]), secret };
  }

  openArtifact(bytes: Uint8Array, secret: string): Uint8Array {
    const key = artifactKey(this.#keys.storeKey({ creates: false }), secret);
    try {
      return new Uint8Array(decrypt(key, bytes.subarray(1), "artifact"));
    } catch (cause) {
      throw new HoldfastError("CODEC_FAILED", "an artifact cannot be decrypted", {
        hint: "Use the reference as putArtifact returned it, and the key ring of the store that it is from.",
        cause,
      });
    }
  }

  sealText(place: StreamPlace, field: string, text: string): string {
    return MARK + this.#seal(place, text, aboutText(place, field)).toString("base64url");
  }

  /** Text from before the store was encrypted stays as it is. */
  openText(place: StreamPlace, field: string, text: string): string | null {
    if (!text.startsWith(MARK)) return text;
    try {
      const box = Buffer.from(text.slice(MARK.length), "base64url");
      return this.#open(place, box, aboutText(place, field)).toString("utf8");
    } catch {
      // Lists stay usable without the key. Opening the stream itself reports why it cannot be read.
      return null;
    }
  }

  /** A digest that only a holder of the key can compute. It equals itself, so that it can be looked up. */
  keyed(text: string): string {
    const key = this.#keys.storeKey({ creates: true });
    return createHmac("sha256", key).update(`id\n${text}`).digest("hex").slice(0, 32);
  }

  /** Destroys the keys of a stream that is gone. False if there are none. */
  forget(place: StreamPlace): boolean {
    const { count, finish } = this.#keys.beginErase(place);
    finish();
    return count > 0;
  }

  rewrap(): { readonly keys: number; readonly rewrapped: number } {
    return this.#keys.rewrap();
  }

  /** `format · id of the key · box`. */
  #seal(place: StreamPlace, text: string, about: string): Buffer {
    const { id, key } = this.#keys.keyToWrite(place);
    return Buffer.concat([Buffer.of(FORMAT), id, encrypt(key, text, about)]);
  }

  #open(place: StreamPlace, sealed: Uint8Array, about: string): Buffer {
    if (sealed[0] !== FORMAT) throw new Error(`its format ${sealed[0]} is of a later release`);
    const key = this.#keys.keyToRead(place, sealed.subarray(1, 1 + ID_BYTES));
    return decrypt(key, sealed.subarray(1 + ID_BYTES), about);
  }
}

function aboutPayload({ namespace, stream, seq }: PayloadPlace): string {
  return JSON.stringify(["payload", namespace, stream, seq]);
}

function aboutText({ namespace, stream }: StreamPlace, field: string): string {
  return JSON.stringify(["text", namespace, stream, field]);
}

function artifactKey(storeKey: Buffer, secret: string): Buffer {
  return createHmac("sha256", storeKey).update(`artifact\n${secret}`).digest();
}

const TITLE = "title";
/** The id of these items is a digest of their value, which a reader could guess. */
const METADATA = "metadata";
/** Items of a goal whose `key` holds texts, for SQL views. */
const DETAILED: ReadonlySet<string> = new Set(["decision", "blocker", "history"]);
const fieldOf = ({ kind, id }: Pick<Item, "kind" | "id">): string => `${kind} ${id}`;

export class EncryptedStore implements Store {
  readonly address: string;
  readonly [CIPHER]: Cipher;
  readonly moving?: Moving;
  readonly backup?: (path: string) => Promise<void>;
  readonly acceptRewind?: () => Promise<void>;
  readonly unwritable?: NonNullable<Store["unwritable"]>;
  readonly grantTenant?: NonNullable<Store["grantTenant"]>;
  readonly vacuum?: NonNullable<Store["vacuum"]>;
  readonly #store: Store;
  readonly #keys: KeyRing;

  constructor(store: Store, keys: KeyRing) {
    this.address = store.address;
    this[CIPHER] = new Cipher(keys);
    this.#store = store;
    this.#keys = keys;
    if (store.moving) this.moving = store.moving;
    if (store.backup) this.backup = store.backup.bind(store);
    if (store.acceptRewind) this.acceptRewind = store.acceptRewind.bind(store);
    if (store.unwritable) this.unwritable = store.unwritable.bind(store);
    if (store.grantTenant) this.grantTenant = store.grantTenant.bind(store);
    if (store.vacuum) this.vacuum = store.vacuum.bind(store);
  }

  append(batch: Batch): MaybePromise<AppendOutcome> {
    const { namespace } = batch;
    return this.#store.append({
      ...batch,
      writes: batch.writes.map((write) => this.#sealed(namespace, write)),
    });
  }

  async read(request: ReadRequest): Promise<ReadPage> {
    const page = await this.#store.read(request);
    return { ...page, stream: this.#openRow(request.namespace, page.stream) };
  }

  async list<Of extends keyof ListRows>(
    request: Extract<ListRequest, { of: Of }>,
  ): Promise<Page<ListRows[Of]>> {
    const asked: ListRequest = request;
    if (asked.of !== "streams" && asked.of !== "items") return this.#store.list<Of>(request);
    const isTag = asked.of === "items" && asked.kind === METADATA && asked.id !== undefined;
    const keyed = isTag ? { ...request, id: this[CIPHER].keyed(asked.id ?? "") } : request;
    const page = await this.#store.list<Of>(keyed);
    const { namespace } = asked;
    const open = (row: unknown): unknown =>
      asked.of === "streams"
        ? this.#openRow(namespace, row as StreamRow)
        : this.#openItem({ namespace, ...(row as ItemRow) }, row as ItemRow);
    return { ...page, rows: page.rows.map(open) as ListRows[Of][] };
  }

  put(request: PutRequest): Promise<void> {
    return this.#store.put(request);
  }

  get(request: GetRequest): Promise<Blob | null> {
    return this.#store.get(request);
  }

  lease(request: LeaseRequest): Promise<LeaseOutcome> {
    return this.#store.lease(request);
  }

  /** An erase destroys the keys of the stream, and of hidden streams that go with it. */
  async remove(request: RemoveRequest): Promise<RemoveOutcome> {
    if (request.of !== "stream" || !request.erase) return this.#store.remove(request);
    const { namespace, stream } = request;
    const ancestors = await this.#hiddenAncestors(namespace, stream);
    const own = this.#keys.beginErase({ namespace, stream });
    let isRemoved = false;
    try {
      const outcome = await this.#store.remove(request);
      isRemoved = outcome.outcome === "removed";
      return outcome;
    } finally {
      if (isRemoved) own.finish();
      else own.undo();
      for (const each of isRemoved ? ancestors : []) {
        if ((await this.#row(namespace, each)).state === "gone")
          this[CIPHER].forget({ namespace, stream: each });
      }
    }
  }

  watch(request: WatchRequest, changed: () => void): () => void {
    return this.#store.watch(request, changed);
  }

  check(): Promise<readonly Problem[]> {
    return this.#store.check();
  }

  get rewind(): Rewind | null {
    const { rewind = null } = this.#store;
    return rewind && { ...rewind, items: rewind.items.map((item) => this.#openItem(item, item)) };
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #sealed(namespace: string, write: Write): Write {
    const { facets, items } = write;
    const place = { namespace, stream: write.stream };
    return {
      ...write,
      ...(facets && { facets: this.#sealFacets(place, facets) }),
      ...(items && { items: items.map((item) => this.#sealItem(place, item)) }),
    };
  }

  #sealFacets(place: StreamPlace, facets: StreamFacets): StreamFacets {
    const { title } = facets;
    return typeof title === "string"
      ? { ...facets, title: this[CIPHER].sealText(place, TITLE, title) }
      : facets;
  }

  #sealItem(place: StreamPlace, item: Item): Item {
    const { name } = item;
    if (item.kind === METADATA) return { ...item, id: this[CIPHER].keyed(item.id) };
    const sealed =
      name === undefined ? item : { ...item, name: this[CIPHER].sealText(place, fieldOf(item), name) };
    if (!DETAILED.has(item.kind) || item.key === undefined) return sealed;
    return { ...sealed, key: this[CIPHER].sealText(place, `${fieldOf(item)} details`, item.key) };
  }

  #openRow(namespace: string, row: StreamRow): StreamRow {
    const { stream, facets } = row;
    if (facets.title === null) return row;
    const title = this[CIPHER].openText({ namespace, stream }, TITLE, facets.title);
    return { ...row, facets: { ...facets, title } };
  }

  #openItem<Row extends { readonly kind: string; readonly id: string; readonly name: string | null }>(
    place: StreamPlace,
    row: Row,
  ): Row {
    return row.name === null ? row : { ...row, name: this[CIPHER].openText(place, fieldOf(row), row.name) };
  }

  async #hiddenAncestors(namespace: string, stream: string): Promise<string[]> {
    const found: string[] = [];
    let { parent } = await this.#row(namespace, stream);
    while (parent) {
      const row = await this.#row(namespace, parent.stream);
      if (row.state !== "hidden") break;
      found.push(row.stream);
      parent = row.parent;
    }
    return found;
  }

  async #row(namespace: string, stream: string): Promise<StreamRow> {
    const end = { namespace, stream, after: Number.MAX_SAFE_INTEGER - 1, limit: 1 };
    return (await this.#store.read(end)).stream;
  }
}

/** The ring of a store on a disk lies beside it. A server has no such place. */
export function ringBeside(address: string): string {
  const [, path] = /^(?:sqlite|files) (.+)$/.exec(address) ?? [];
  if (path !== undefined) return `${path.replace(/[/\\]+$/, "")}.keys`;
  throw new HoldfastError("INPUT_INVALID", `encryption: the key ring of ${address} is not named`, {
    hint: 'Name a folder that every process reaches: aesGcm({ keys, ring: "/var/lib/app/holdfast-keys" }).',
    data: { address },
  });
}
