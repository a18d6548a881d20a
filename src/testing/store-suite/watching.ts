import assert from "node:assert/strict";
import type { Store, WatchRequest } from "../../store.ts";
import { accept, removeStream, SPACE, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

const NOTICED_WITHIN_MS = 5_000;

/** Does something and waits until the watcher is told; hints that came before the act do not count. */
export async function assertNoticed(
  watching: Store,
  request: Partial<WatchRequest>,
  act: () => Promise<unknown>,
): Promise<void> {
  let notice = (): void => undefined;
  const noticed = new Promise<boolean>((resolve) => {
    notice = () => resolve(true);
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), NOTICED_WITHIN_MS);
  });
  let hasBegun = false;
  const stop = watching.watch({ namespace: SPACE, ...request }, () => {
    if (hasBegun) notice();
  });
  try {
    hasBegun = true;
    await act();
    assert.ok(await Promise.race([noticed, late]), `nothing was noticed within ${NOTICED_WITHIN_MS} ms`);
  } finally {
    clearTimeout(timer);
    stop();
  }
}

export const watchCases: Cases = {
  "a change by another handle is noticed": async ({ store, another }) => {
    const other = await another();
    await assertNoticed(store, { stream: "session/a" }, () => accept(other, write("session/a", 0)));
    await assertNoticed(store, { stream: "session/a" }, () => accept(other, write("session/a", 1)));
  },

  "a change by the same handle is noticed": async ({ store }) => {
    await assertNoticed(store, { stream: "session/a" }, () => accept(store, write("session/a", 0)));
  },

  "whoever watches the namespace notices a change of any stream, also of a new one": async ({
    store,
    another,
  }) => {
    const other = await another();
    await accept(other, write("session/a", 0));
    await assertNoticed(store, {}, () => accept(other, write("session/a", 1)));
    await assertNoticed(store, {}, () => accept(other, write("session/b", 0)));
  },

  "a removal by another handle is noticed": async ({ store, another }) => {
    const other = await another();
    await accept(other, write("session/a", 0));
    await assertNoticed(store, { stream: "session/a" }, () => removeStream(other, "session/a"));
  },

  "who is told sees the change when it rereads": async ({ store, another }) => {
    const other = await another();
    let seen = 0;
    await assertNoticed(store, { stream: "session/a" }, () => accept(other, write("session/a", 0)));
    seen = (await store.read({ namespace: SPACE, stream: "session/a", after: 0 })).stream.head.seq;
    assert.equal(seen, 1);
  },

  "who stopped watching is not told, and stopping twice is fine": async ({ store, another }) => {
    const other = await another();
    let told = 0;
    const stop = store.watch({ namespace: SPACE }, () => {
      told += 1;
    });
    stop();
    stop();
    await assertNoticed(store, {}, () => accept(other, write("session/a", 0)));
    assert.equal(told, 0);
  },

  "one who stops does not stop the others": async ({ store, another }) => {
    const other = await another();
    const stop = store.watch({ namespace: SPACE, stream: "session/a" }, () => undefined);
    await assertNoticed(store, { stream: "session/a" }, async () => {
      stop();
      await accept(other, write("session/a", 0));
    });
  },
};
