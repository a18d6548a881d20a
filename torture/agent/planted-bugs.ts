/**
 * Planted bugs. Each is a real way in which durable agents go wrong, built around the real store, tools and
 * loop. The checker must find every one of them, or its silence means nothing. `torture/planted-bugs.ts`
 * says under which fault each one shows.
 */

import { crc32 } from "node:zlib";
import {
  type ExecuteContext,
  landed,
  never,
  notYet,
  type RunOptions,
  type Session,
} from "../../src/index.ts";
import { sessionCore } from "../../src/session/index.ts";
import type { Batch, Store } from "../../src/store.ts";
import type { ToolName } from "../scenario.ts";
import type { TortureTool } from "./tools.ts";

type Tools = Record<ToolName, TortureTool>;
type StorePlant = (store: Store) => Store;
type ToolPlant = (tools: Tools) => Partial<Tools>;

const holds = (batch: Batch, text: string): boolean => {
  return batch.writes.some(({ payload }) => typeof payload === "string" && payload.includes(text));
};

/** Answers `ok` for batches that it holds back, and writes them before the next batch that it does not. */
function keepsBack(store: Store, isKept: (batch: Batch) => boolean): Store {
  const kept: Batch[] = [];
  const catchUp = async (): Promise<void> => {
    for (const batch of kept.splice(0)) await store.append(batch);
  };
  return {
    ...verbs(store),
    append: async (batch) => {
      if (!isKept(batch)) await catchUp();
      if (!isKept(batch)) return store.append(batch);
      kept.push(batch);
      const heads = batch.writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
      return { outcome: "ok", heads, resent: false };
    },
    close: async () => {
      await catchUp();
      await store.close();
    },
  };
}

/** Acknowledges every batch one step before it is written. */
function oneBehind(store: Store): Store {
  let last: Batch | null = null;
  const write = async (): Promise<void> => {
    const batch = last;
    last = null;
    if (batch) await store.append(batch);
  };
  return {
    ...verbs(store),
    append: async (batch) => {
      await write();
      last = batch;
      const heads = batch.writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
      return { outcome: "ok", heads, resent: false };
    },
    close: async () => {
      await write();
      await store.close();
    },
  };
}

/** Stores other events than it was given. */
function rewrites(store: Store, rewrite: (events: StoredEvent[]) => StoredEvent[]): Store {
  const writeOf = (write: Batch["writes"][number]): Batch["writes"][number] => {
    const payload = JSON.stringify(rewrite(JSON.parse(write.payload as string) as StoredEvent[]));
    return payload === write.payload ? write : { ...write, payload, sum: crc32(payload) };
  };
  return {
    ...verbs(store),
    append: (batch) => store.append({ ...batch, writes: batch.writes.map(writeOf) }),
  };
}

interface StoredEvent {
  readonly type: string;
  readonly v: number;
  readonly at: number;
  readonly data: { readonly callId?: string; readonly attempt?: number; readonly message?: unknown };
}

/** Fails a call after it was completed. */
function endsTwice(store: Store): Store {
  return {
    ...verbs(store),
    append: async (batch) => {
      const outcome = await store.append(batch);
      const [write] = batch.writes;
      const head = outcome.outcome === "ok" ? outcome.heads[0] : undefined;
      if (!write || !head || !holds(batch, '"call.completed"')) return outcome;
      const events = JSON.parse(write.payload as string) as StoredEvent[];
      const { callId, attempt } = events.find((each) => each.type === "call.completed")?.data ?? {};
      const data = { callId, attempt, error: { message: "after all" }, by: "definite" };
      const payload = JSON.stringify([{ type: "call.failed", v: 1, at: write.at, data }]);
      const { facets: _facets, items: _items, guards: _guards, claims: _claims, ...plain } = write;
      const extra = { ...plain, expect: head, count: 1, payload, sum: crc32(payload) };
      await store.append({ ...batch, id: `${batch.id}-again`, writes: [extra] });
      return outcome;
    },
  };
}

const STORE_PLANTS: Readonly<Record<string, StorePlant>> = {
  "issued after the effect": (store) => keepsBack(store, (batch) => holds(batch, '"call.issued"')),
  "turn saved at its end": (store) => {
    return keepsBack(store, (batch) => holds(batch, '"call.issued"') || holds(batch, '"tool_call"'));
  },
  "results acknowledged before they are written": (store) => {
    return keepsBack(store, (batch) => holds(batch, '"call.completed"'));
  },
  "everything acknowledged before it is written": oneBehind,
  "no fence": (store) => ({
    ...verbs(store),
    append: (batch) => {
      const writes = batch.writes.map(({ guards: _guards, ...write }) => write);
      return store.append({ ...batch, writes });
    },
  }),
  "message stored with other call ids": (store) => {
    return rewrites(store, (events) => {
      return JSON.parse(JSON.stringify(events).replaceAll('"tool_call","id":"c', '"tool_call","id":"d'));
    });
  },
  "result not recorded": (store) => {
    return rewrites(store, (events) =>
      events.map((each) => {
        if (each.type !== "call.completed") return each;
        const { callId, attempt } = each.data;
        return {
          ...each,
          type: "call.lost",
          data: { callId, attempt, why: "forgotten" } as StoredEvent["data"],
        };
      }),
    );
  },
  "message kept without the intents of its wave": (store) => {
    return rewrites(store, (events) => {
      const isJoint = events.some(({ type }) => type === "message");
      const kept = { type: "budget.spent", v: 1, data: { amounts: {} } as StoredEvent["data"] };
      return events.map((each) => (isJoint && each.type === "call.issued" ? { ...kept, at: each.at } : each));
    });
  },
  "intents kept without their message": (store) => {
    return rewrites(store, (events) => {
      const isJoint = events.some(({ type }) => type === "call.issued");
      const kept = { type: "budget.spent", v: 1, data: { amounts: {} } as StoredEvent["data"] };
      return events.map((each) => (isJoint && each.type === "message" ? { ...kept, at: each.at } : each));
    });
  },
  "intents of an own loop acknowledged before they are written": (store) => {
    return keepsBack(store, (batch) => holds(batch, '"tool_call"') && holds(batch, '"call.issued"'));
  },
  "outcome and next intent acknowledged before they are written": (store) => {
    return keepsBack(store, (batch) => holds(batch, '"call.completed"') && holds(batch, '"call.issued"'));
  },
  "ends twice": endsTwice,
  "errors taken for success": (store) => ({
    ...verbs(store),
    append: async (batch) => {
      try {
        return await store.append(batch);
      } catch {
        // The planted bug itself.
        const heads = batch.writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
        return { outcome: "ok", heads, resent: false };
      }
    },
  }),
};

const every = (tools: Tools, change: (tool: TortureTool) => Partial<TortureTool>): Tools => {
  const changed = Object.entries(tools).map(([name, tool]) => [name, { ...tool, ...change(tool) }]);
  return Object.fromEntries(changed) as Tools;
};

const TOOL_PLANTS: Readonly<Record<string, ToolPlant>> = {
  "unknown is retried": ({ ask }) => ({ ask: { ...ask, idempotent: true } }),
  "a throw is a failure": (tools) => every(tools, () => ({ definite: () => true })),
  "key changes between attempts": (tools) => {
    return every(tools, ({ execute }) => ({
      execute: (args, context) => execute(args, { ...context, key: `${context.key}-${context.attempt}` }),
    }));
  },
  "call swallowed": ({ ask }) => ({ ask: { ...ask, execute: () => "receipt 1" } }),
  "verify without a fence": ({ fenced, timed }) => ({
    fenced: {
      ...fenced,
      verify: async (args, context) => {
        const verdict = await timed.verify?.(args, context);
        return verdict?.answer === "landed" ? verdict : never();
      },
    },
  }),
  "not yet taken for never": ({ timed }) => ({ timed: { ...timed, settleMs: 0 } }),
  "verify guesses": ({ fenced }) => ({ fenced: { ...fenced, verify: () => landed("receipt 1") } }),
  "not yet for ever": ({ timed }) => {
    const verify = () => notYet({ againInMs: 3_600_000 });
    return { timed: { ...timed, verify, settleMs: 3_600_000 } };
  },
  "effect sent twice": ({ ask }) => ({
    ask: {
      ...ask,
      execute: async (args, context) => {
        await ask.execute(args, context);
        return ask.execute(args, context);
      },
    },
  }),
};

export function plantInStore(plant: string | null, store: Store): Store {
  return STORE_PLANTS[plant ?? ""]?.(store) ?? store;
}

export function plantInTools(plant: string | null, tools: Tools): Tools {
  return { ...tools, ...TOOL_PLANTS[plant ?? ""]?.(tools) };
}

export function plantOptions(plant: string | null): Pick<RunOptions, "parallel"> {
  return plant === "all calls issued at once" ? { parallel: 100 } : {};
}

/** Acts like a program that trusts its own memory of the last run. */
export async function plantBeforeRun(plant: string | null, session: Session, tools: Tools): Promise<void> {
  if (plant !== "finished calls run again") return;
  for (const call of sessionCore(session).state.calls.values()) {
    if (call.status !== "completed") continue;
    const { vendorKey: key, callId, token, attempt } = call;
    const signal = new AbortController().signal;
    const context = { key, callId, session: session.id, token, attempt, signal } as ExecuteContext;
    await tools[call.tool as ToolName].execute(call.args as never, context);
  }
}

/** Copies the verbs from the store's prototype, so that a wrapper can spread them. */
function verbs(store: Store): Store {
  return {
    address: store.address,
    append: (batch) => store.append(batch),
    read: (request) => store.read(request),
    list: (request) => store.list(request),
    put: (request) => store.put(request),
    get: (request) => store.get(request),
    lease: (request) => store.lease(request),
    remove: (request) => store.remove(request),
    watch: (request, changed) => store.watch(request, changed),
    check: () => store.check(),
    close: () => store.close(),
  };
}
