/** Which appends fly together, and what becomes of a flight; `append.ts` opens with the protocol. */

import { HoldfastError } from "../../model/errors.ts";
import type { AppendOutcome, Batch } from "../../store.ts";
import { type Encoded, encode, flightArguments, headsAfter, parseOutcomes } from "./append.ts";
import { type Database, type Entry, kept, pause } from "./database.ts";
import { asFailure, isCollision, isLocked, isPassing, isStandby, isUnfit } from "./failures.ts";
import type { Kept } from "./kept-run.ts";
import { inLockOrder, plainArguments } from "./plain.ts";
import { SINGLE_LOCK_MS, SINGLE_PARAMETERS } from "./schema-1-single.ts";
import { isSingle, singleArguments } from "./single.ts";

/** With one, a flight that waits for a lock would hold up all others, and one processor of the server would do it all. */
const MAX_FLIGHTS = 4;
const FLIGHT_BATCHES = 256;
/** What waits is shared out among the flights that are free, but a flight costs as much as two batches. */
const SHARE_BATCHES = 8;
const FLIGHT_BYTES = 8 * 1024 * 1024;
/** A flight of several gives up a lock sooner: its batches then wait apart. */
const SHARED_LOCK_MS = 1_000;
/** A plain flight gives it up sooner still: the long way waits. */
const PLAIN_LOCK_MS = 100;

/** `noted` is told of an outcome before the caller is, and may refuse it by throwing. */
type Noted = (outcome: AppendOutcome) => void;

class Waiting implements Encoded {
  readonly batch: Batch;
  readonly payloads: readonly (string | Buffer)[];
  readonly bytes: number;
  readonly touches: readonly string[];
  readonly isPlain: boolean;
  readonly reject: (error: unknown) => void;
  readonly #noted: Noted;
  readonly #resolve: (outcome: AppendOutcome) => void;

  constructor(
    { batch, payloads, bytes, touches, isPlain }: Encoded,
    noted: Noted,
    resolve: (outcome: AppendOutcome) => void,
    reject: (error: unknown) => void,
  ) {
    this.batch = batch;
    this.payloads = payloads;
    this.bytes = bytes;
    this.touches = touches;
    this.isPlain = isPlain;
    this.reject = reject;
    this.#noted = noted;
    this.#resolve = resolve;
  }

  resolve(outcome: AppendOutcome): void {
    try {
      this.#noted(outcome);
      this.#resolve(outcome);
    } catch (error) {
      this.reject(error);
    }
  }
}

/** Batches that have no answer yet. `wasLost`: an earlier flight may have stored them. */
interface Left {
  readonly flight: readonly Waiting[];
  readonly wasLost: boolean;
}

export class AppendQueue {
  readonly #database: Database;
  readonly #entry: Entry;
  readonly #sql: string;
  readonly #plainSql: Kept;
  readonly #singleSql: Kept;
  readonly #inTheAir = new Set<string>();
  #waiting: Waiting[] = [];
  #flights = 0;
  #isScheduled = false;
  #idle: (() => void)[] = [];

  constructor(database: Database, entry: Entry) {
    this.#database = database;
    this.#entry = entry;
    const call = (name: string, parameters: number, result: string) => {
      const list = Array.from({ length: parameters }, (_, index) => `$${index + 1}`);
      return kept(name, `SELECT ${database.schema}.${name}(${list.join(", ")}) AS ${result}`);
    };
    this.#sql = call("append_batches", 7, "outcomes").text;
    this.#plainSql = call("append_plain", 10, "stored");
    this.#singleSql = call("append_single", SINGLE_PARAMETERS, "stored");
  }

  submit(batch: Batch, noted: Noted): Promise<AppendOutcome> {
    const encoded = encode(batch);
    return new Promise((resolve, reject) => {
      this.#waiting.push(new Waiting(encoded, noted, resolve, reject));
      // Enough for a flight: the server may work while the rest of this turn's appends is being made.
      if (this.#waiting.length === SHARE_BATCHES) this.#launch();
      else this.#schedule();
    });
  }

  /** Resolves when everything submitted so far has been answered. */
  drained(): Promise<void> {
    if (this.#flights === 0 && this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
    });
  }

  /**
   * Once all is made that leads to appends in this turn. Where others are in the air, what has arrived of their answers is
   * awaited as well, so that those who were answered fly together again.
   */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    process.nextTick(() => {
      if (this.#flights === 0) this.#launchInTurn();
      else setImmediate(this.#launchInTurn);
    });
  }

  readonly #launchInTurn = (): void => {
    this.#isScheduled = false;
    this.#launch();
  };

  #launch(): void {
    while (this.#flights < MAX_FLIGHTS && this.#waiting.length > 0) {
      const flight = this.#take();
      if (flight.length === 0) return;
      this.#flights += 1;
      for (const { touches } of flight) for (const each of touches) this.#inTheAir.add(each);
      if (this.#isAlone(flight)) this.#flyAlone(flight);
      else void this.#fly(flight).finally(() => this.#landed(flight));
    }
  }

  #landed(flight: readonly Waiting[]): void {
    for (const { touches } of flight) for (const each of touches) this.#inTheAir.delete(each);
    this.#flights -= 1;
    // After whoever was just answered: what that leads to flies together with what waits.
    if (this.#waiting.length > 0) queueMicrotask(() => this.#schedule());
    else if (this.#flights === 0 && this.#idle.length > 0) for (const tell of this.#idle.splice(0)) tell();
  }

  /**
   * In the order of arrival, each stream once, either plain ones or others; a batch that has to wait lets later ones of its
   * streams wait as well.
   */
  #take(): Waiting[] {
    // As it mostly is: who writes alone has nobody to look out for.
    if (this.#waiting.length === 1 && this.#inTheAir.size === 0) return this.#waiting.splice(0);
    const held = new Set(this.#inTheAir);
    const share = Math.ceil(this.#waiting.length / (MAX_FLIGHTS - this.#flights));
    const most = Math.min(FLIGHT_BATCHES, Math.max(SHARE_BATCHES, share));
    const flight: Waiting[] = [];
    const rest: Waiting[] = [];
    let bytes = 0;
    for (const each of this.#waiting) {
      const isFull = flight.length > 0 && (flight.length >= most || bytes + each.bytes > FLIGHT_BYTES);
      const isOther = flight[0] !== undefined && flight[0].isPlain !== each.isPlain;
      if (isFull || isOther || each.touches.some((place) => held.has(place))) {
        for (const place of each.touches) held.add(place);
        rest.push(each);
        continue;
      }
      bytes += each.bytes;
      flight.push(each);
      for (const place of each.touches) held.add(place);
    }
    this.#waiting = rest;
    return flight;
  }

  async #fly(flight: readonly Waiting[]): Promise<void> {
    try {
      const left = flight[0]?.isPlain ? await this.#flyPlain(flight) : { flight, wasLost: false };
      if (left.flight.length === 0) return;
      const apart = await this.#flyTogether(left.flight, left.wasLost);
      if (apart) await Promise.all(left.flight.map((each) => this.#flyTogether([each], apart.wasLost)));
    } catch (error) {
      for (const { reject } of flight) reject(error);
    }
  }

  /** As most are. Who waits for it is told by the server's answer itself, with no promise in between. */
  #flyAlone(flight: readonly Waiting[]): void {
    const [each] = flight as [Waiting];
    const told = (error: unknown, answer: string | null): void => {
      if (error === null && answer === "t") {
        each.resolve(storedNow(each));
        this.#landed(flight);
        return;
      }
      void this.#flyLong(flight, error)
        .catch(each.reject)
        .finally(() => this.#landed(flight));
    };
    try {
      this.#database.tell(this.#singleSql, singleArguments(this.#entry, each), told);
    } catch (error) {
      each.reject(error);
      this.#landed(flight);
    }
  }

  /** After `error`, if there was one. */
  async #flyLong(flight: readonly Waiting[], error: unknown): Promise<void> {
    await this.#flyTogether(flight, error !== null && asFailure(error).fate === "lost");
  }

  /** Returns the batches that have no answer yet. */
  async #flyPlain(flight: readonly Waiting[]): Promise<Left> {
    const sorted = inLockOrder(flight);
    let answer: string | null;
    try {
      answer = await this.#sendAll(sorted);
    } catch (error) {
      return { flight, wasLost: asFailure(error).fate === "lost" };
    }
    const isStored = placesIn(answer);
    const left: Waiting[] = [];
    sorted.forEach((each, place) => {
      if (isStored(place)) each.resolve(storedNow(each));
      else left.push(each);
    });
    return { flight: left, wasLost: false };
  }

  #isAlone(flight: readonly Waiting[]): boolean {
    const [first] = flight;
    return first?.isPlain === true && isSingle(flight) && this.#database.limits.busyMs >= SINGLE_LOCK_MS;
  }

  #sendAll(flight: readonly Waiting[]): Promise<string | null> {
    const { store, allowLoss } = this.#entry;
    const lockMs = Math.min(PLAIN_LOCK_MS, this.#database.limits.busyMs);
    const values = [store, allowLoss ? "t" : "f", `${lockMs}`, ...plainArguments(flight)];
    return this.#database.ask(this.#plainSql, values);
  }

  /**
   * Flies until every batch has its answer, and returns null; or what is known when they have to fly one by one.
   * `wasLost`: an earlier flight may have stored them.
   */
  async #flyTogether(
    flight: readonly Waiting[],
    wasLostBefore: boolean,
  ): Promise<{ readonly wasLost: boolean } | null> {
    const begun = performance.now();
    const { busyMs } = this.#database.limits;
    const lockMs = flight.length > 1 ? Math.min(SHARED_LOCK_MS, busyMs) : busyMs;
    const { store, allowLoss } = this.#entry;
    const values = [store, allowLoss, lockMs, ...flightArguments(flight)];
    let wasLost = wasLostBefore;
    for (let tries = 1; ; tries++) {
      try {
        const [row] = await this.#database.attempt<{ outcomes: string }>(this.#sql, values);
        this.#answer(flight, parseOutcomes(row?.outcomes ?? "[]", flight), wasLost);
        return null;
      } catch (error) {
        const failure = asFailure(error);
        if (flight.length > 1 && (isUnfit(failure) || isLocked(failure))) return { wasLost };
        const isFirstLoss: boolean = failure.fate === "lost" && !wasLost;
        wasLost ||= isFirstLoss;
        const waitedMs = performance.now() - begun;
        const isWorthIt = isPassing(failure) || isCollision(failure) || isStandby(failure);
        if (!isWorthIt || (waitedMs > busyMs && !isFirstLoss)) {
          const given = this.#database.given(failure, waitedMs, wasLost);
          for (const { reject } of flight) reject(given);
          return null;
        }
        await pause(tries);
      }
    }
  }

  #answer(flight: readonly Waiting[], outcomes: readonly AppendOutcome[], wasLost: boolean): void {
    flight.forEach((each, index) => {
      const outcome = outcomes[index];
      if (outcome && (outcome.outcome === "ok" || !wasLost)) each.resolve(outcome);
      else each.reject(this.#undecided());
    });
  }

  #undecided(): HoldfastError {
    const { address } = this.#database;
    return new HoldfastError(
      "STORE_IO",
      `${address}: the connection was lost while an append was under way`,
      {
        hint: "Send the same batch again: its id makes that safe, and the answer will be certain.",
        unknown: true,
        data: { address },
      },
    );
  }
}

function storedNow({ batch }: Waiting): AppendOutcome {
  return { outcome: "ok", heads: headsAfter(batch), resent: false };
}

/** The places that `append_plain` names, as in `{0,2}`; all of them where it names none. */
function placesIn(answer: string | null): (place: number) => boolean {
  if (answer === null) return () => true;
  const places = new Set(answer.slice(1, -1).split(","));
  return (place) => places.has(`${place}`);
}
