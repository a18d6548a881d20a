import { setTimeout } from "node:timers/promises";
import type { Store } from "../../store.ts";

/** A store under test. */
export interface StoreSubject {
  /** Shown in messages: `memory`, `my store on S3`. */
  readonly name: string;
  /** Makes an empty store. Every case gets one of its own, so `open` must be cheap. */
  open(): Promise<Opened>;
}

/** One empty store, and what a case may do to it. */
export interface Opened {
  readonly store: Store;
  /** Closes `store` and opens the same data again. */
  reopen(): Promise<Store>;
  /** A second handle on the same data, as another process would have it. */
  another(): Promise<Store>;
  /**
   * Moves the clock that leases run by, for all handles. Without it the suite really waits, with short leases,
   * which takes about five seconds longer.
   */
  advanceMs?(ms: number): void | Promise<void>;
  /** Closes every handle and throws the data away. */
  dispose(): Promise<void>;
}

/** What a case gets: an opened store, and leases that it can see run out. */
export interface Trial extends Omit<Opened, "advanceMs" | "dispose"> {
  /** How long a lease should last that the case wants to see run out. */
  readonly ttlMs: number;
  /** Lets this much of the leases' time pass. */
  pass(ms: number): Promise<void>;
}

/** The cases of one topic. A name states the property that the case protects. */
export type Cases = Readonly<Record<string, (trial: Trial) => Promise<void>>>;

/** Long enough that a case never sees it run out, however slow the machine is. */
export const LONG_MS = 600_000;

const FAKED_TTL_MS = 10_000;
/** Long enough that a busy machine does not miss the second half of it. */
const REAL_TTL_MS = 400;

export async function attempt(subject: StoreSubject, run: (trial: Trial) => Promise<void>): Promise<void> {
  const opened = await subject.open();
  const advance = opened.advanceMs?.bind(opened);
  try {
    await run({
      store: opened.store,
      reopen: () => opened.reopen(),
      another: () => opened.another(),
      ttlMs: advance ? FAKED_TTL_MS : REAL_TTL_MS,
      pass: async (ms) => {
        if (advance) await advance(ms);
        else await setTimeout(ms);
      },
    });
  } finally {
    await opened.dispose();
  }
}
