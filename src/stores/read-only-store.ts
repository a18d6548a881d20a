/** A store that is open for reading only: writes are rejected before they reach the store below. */

import type {
  AppendOutcome,
  Blob,
  GetRequest,
  LeaseOutcome,
  ListRequest,
  ListRows,
  Page,
  Problem,
  ReadPage,
  ReadRequest,
  RemoveOutcome,
  Store,
  WatchRequest,
} from "../store.ts";
import { readOnlyError } from "./kit/index.ts";

export class ReadOnlyStore implements Store {
  readonly address: string;
  readonly #store: Store;

  constructor(store: Store) {
    this.address = store.address;
    this.#store = store;
  }

  append(): Promise<AppendOutcome> {
    return this.#refuse();
  }

  put(): Promise<void> {
    return this.#refuse();
  }

  lease(): Promise<LeaseOutcome> {
    return this.#refuse();
  }

  remove(): Promise<RemoveOutcome> {
    return this.#refuse();
  }

  read(request: ReadRequest): Promise<ReadPage> {
    return this.#store.read(request);
  }

  list<Of extends keyof ListRows>(request: Extract<ListRequest, { of: Of }>): Promise<Page<ListRows[Of]>> {
    return this.#store.list<Of>(request);
  }

  get(request: GetRequest): Promise<Blob | null> {
    return this.#store.get(request);
  }

  watch(request: WatchRequest, changed: () => void): () => void {
    return this.#store.watch(request, changed);
  }

  check(): Promise<readonly Problem[]> {
    return this.#store.check();
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #refuse(): Promise<never> {
    throw readOnlyError(
      { address: this.address },
      "Nothing was written. Open it without `readOnly` to write.",
    );
  }
}
