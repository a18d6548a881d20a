/**
 * Rows that the next change will look at again: the heads of streams and the leases that guard them.
 *
 * SQLite tells with `PRAGMA data_version` whether any other connection has committed since this one last looked. As
 * long as none has, what this connection read or wrote is what is there, and need not be read again. The value is
 * taken inside the write transaction, where nobody else can commit any more.
 *
 * Invariant: an entry equals its row as the open transaction sees it. So whoever changes a row changes or forgets
 * the entry, and a rolled back transaction forgets everything.
 */

import type { Connection } from "./driver.ts";
import type { StoredLease, StreamKey } from "./rows.ts";

const MAX_ENTRIES = 20_000;

export class RowCache {
  #connection: Connection | null = null;
  #version = -1;
  /** How many entries there are in all. */
  #size = 0;
  readonly #streams = new Map<string, Map<string, StreamKey>>();
  readonly #leases = new Map<string, Map<string, StoredLease>>();

  /** To be called first in every write transaction. `changed`: another connection has committed in between. */
  refresh(connection: Connection): "same" | "changed" | "new connection" {
    const version = connection.number("PRAGMA data_version");
    const isKnown = connection === this.#connection;
    const isSame = isKnown && version === this.#version;
    if (!isSame || this.#size > MAX_ENTRIES) this.clear();
    this.#connection = connection;
    this.#version = version;
    if (isSame) return "same";
    return isKnown ? "changed" : "new connection";
  }

  clear(): void {
    this.#size = 0;
    this.#streams.clear();
    this.#leases.clear();
  }

  stream(namespace: string, name: string): StreamKey | undefined {
    return this.#streams.get(namespace)?.get(name);
  }

  keepStream(namespace: string, name: string, key: StreamKey): void {
    this.#keep(this.#streams, namespace, name, key);
  }

  lease(namespace: string, name: string): StoredLease | undefined {
    return this.#leases.get(namespace)?.get(name);
  }

  keepLease(namespace: string, name: string, lease: StoredLease): void {
    this.#keep(this.#leases, namespace, name, lease);
  }

  forgetLease(namespace: string, name: string): void {
    if (this.#leases.get(namespace)?.delete(name)) this.#size -= 1;
  }

  #keep<Row>(rows: Map<string, Map<string, Row>>, namespace: string, name: string, row: Row): void {
    let own = rows.get(namespace);
    if (!own) {
      own = new Map();
      rows.set(namespace, own);
    }
    const before = own.size;
    own.set(name, row);
    this.#size += own.size - before;
  }
}
