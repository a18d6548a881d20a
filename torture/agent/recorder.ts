import type { Store } from "../../src/store.ts";
import { acknowledge } from "../acks.ts";

/** The agent's store, with every acknowledgement and every error recorded. `onGranted` hears each lease. */
export function recorded(store: Store, dir: string, onGranted?: (name: string) => void): Store {
  const granted = (name: string, token: number): void => {
    acknowledge(dir, { t: "granted", name, token });
    onGranted?.(name);
  };
  const noting = async <Result>(verb: string, act: Promise<Result>): Promise<Result> => {
    try {
      return await act;
    } catch (error) {
      acknowledge(dir, { t: "error", verb, code: String((error as { code?: unknown }).code) });
      throw error;
    }
  };
  return {
    address: store.address,
    append: async (batch) => {
      const outcome = await noting("append", Promise.resolve(store.append(batch)));
      if (outcome.outcome !== "ok") return outcome;
      // A request takes its lease in the commit of its prompt.
      if (batch.lease?.act === "take") granted(batch.lease.name, batch.lease.token);
      for (const { stream, expect, count, sum, guards } of batch.writes) {
        const first = expect.seq + 1;
        const token = guards?.[0]?.token ?? null;
        acknowledge(dir, {
          t: "append",
          stream,
          batch: batch.id,
          first,
          last: first + count - 1,
          sum,
          token,
        });
      }
      return outcome;
    },
    lease: async (request) => {
      const outcome = await noting("lease", store.lease(request));
      if (outcome.outcome === "granted") granted(outcome.lease.name, outcome.lease.token);
      return outcome;
    },
    put: (request) => noting("put", store.put(request)),
    read: (request) => store.read(request),
    list: (request) => store.list(request),
    get: (request) => store.get(request),
    remove: (request) => store.remove(request),
    watch: (request, changed) => store.watch(request, changed),
    check: () => store.check(),
    close: () => store.close(),
  };
}
