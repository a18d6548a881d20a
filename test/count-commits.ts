import type { Store } from "../src/store.ts";

/** Counts what a store makes durable: appends that landed, and leases that were taken or released. */
export function countCommits(store: Store): { store: Store; count(): number } {
  let commits = 0;
  const counted = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "append" && name !== "lease") return value.bind(target);
      return async (...args: [{ act?: string }]) => {
        const answer = await (value as (...all: unknown[]) => unknown).apply(target, args);
        const { outcome } = (answer ?? {}) as { outcome?: string };
        if (name === "append" && outcome === "ok") commits += 1;
        if (name === "lease" && args[0].act !== "renew") commits += 1;
        return answer;
      };
    },
  });
  return { store: counted, count: () => commits };
}
