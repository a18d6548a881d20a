/**
 * Connections of the pool, each for one statement or transaction at a time.
 *
 *     the pool ──take──▶ in use ──give──▶ kept ──the turn of the event loop ends, or somebody waits──▶ the pool
 *                          ▲               │
 *                          └─────take──────┘
 *
 * To get a connection from a pool and to give it back takes several timers and as much time as to send the statement. Who
 * writes one event after another has the next one at hand when the last is answered: it goes out on the same connection.
 *
 * One that failed goes back with the failure, and the pool closes it. After some statements any goes back: a pool may have
 * a limit for how long one is used.
 */

import type pg from "pg";
import { StatementFailure } from "./failures.ts";

/** How often a connection may be taken before the pool sees it again. */
const MOST_USES = 100;

export class Held {
  readonly client: pg.PoolClient;
  uses = 1;
  /** Why it must not be used again. */
  broken: Error | undefined;

  constructor(client: pg.PoolClient) {
    this.client = client;
    // Without a listener an error that comes between two statements would end the process.
    client.on("error", this.break);
  }

  readonly break = (why: Error): void => {
    this.broken ??= why;
  };

  release(): void {
    this.client.off("error", this.break);
    this.client.release(this.broken);
  }
}

export class Connections {
  readonly #pool: pg.Pool;
  readonly #busyMs: number;
  #kept: Held[] = [];
  #isTurning = false;

  constructor(pool: pg.Pool, busyMs: number) {
    this.#pool = pool;
    this.#busyMs = busyMs;
  }

  /** At once where one is kept. Fails with a `StatementFailure` that says `unsent`. */
  take(): Held | Promise<Held> {
    for (;;) {
      const held = this.#kept.pop();
      if (!held) return this.#connect();
      if (!held.broken) {
        held.uses += 1;
        return held;
      }
      held.release();
    }
  }

  give(held: Held): void {
    if (held.broken || held.uses >= MOST_USES || this.#pool.waitingCount > 0) {
      held.release();
      return;
    }
    this.#kept.push(held);
    if (this.#isTurning) return;
    this.#isTurning = true;
    // Behind what the answer leads to, and behind the flight that it may be waiting for.
    process.nextTick(() => setImmediate(this.#turned));
  }

  /** Gives back all that are kept. */
  readonly clear = (): void => {
    for (const held of this.#kept.splice(0)) held.release();
  };

  readonly #turned = (): void => {
    this.#isTurning = false;
    this.clear();
  };

  /** A caller's pool may wait for ever, so the waiting ends here. */
  async #connect(): Promise<Held> {
    let timer: NodeJS.Timeout | undefined;
    const connecting = this.#pool.connect();
    const late = new Promise<never>((_, reject) => {
      const ms = this.#busyMs;
      timer = setTimeout(() => reject(new Error(`no connection within ${ms} ms`)), ms);
    });
    try {
      return new Held(await Promise.race([connecting, late]));
    } catch (error) {
      connecting.then(
        (client) => client.release(),
        () => undefined,
      );
      throw new StatementFailure("unsent", error);
    } finally {
      clearTimeout(timer);
    }
  }
}
