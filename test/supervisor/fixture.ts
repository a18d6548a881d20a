/**
 * The fixture of supervisor tests: one store, processes on it that can die, a clock, and workers.
 */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import {
  Holdfast,
  type Session,
  type SessionOptions,
  type SuperviseOptions,
  type SupervisorEvent,
} from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { quickFolder } from "../quick-folder.ts";

const LEASE_MS = 60_000;
const WAIT = { timeout: 50_000, interval: 2 };

export const DIES = { command: ["false"], output: "ignore" } as const;
export const ENDS = { command: ["true"], output: "ignore" } as const;

/** A worker that ends when this file exists. `$$` in the name stands for the process id. */
export const untilThere = (file: string, code = 0) => ({
  command: ["sh", "-c", `until [ -e "${file}" ]; do sleep 0.01; done; exit ${code}`],
  output: "ignore" as const,
});

/** Waits until a value is as expected, however slow the machine is. */
export const poll = <Value>(value: () => Value | Promise<Value>) => expect.poll(value, WAIT);

export class Place {
  readonly #data = memoryData();
  readonly #folder = mkdtempSync(join(quickFolder(), "holdfast-place-"));
  readonly #stops: (() => Promise<void>)[] = [];
  nowMs = Date.UTC(2024, 0, 14);

  /** Another process, with the same clock. */
  another(alter: (store: Store) => Store = (store) => store): Holdfast {
    const clock = (): number => this.nowMs;
    const store = alter(openMemory({ data: this.#data, clock }));
    return new Holdfast(new Journal({ store, leaseMs: LEASE_MS, now: clock }));
  }

  /** One process held this session when it was killed. */
  async crash(
    id: string,
    live: (session: Session) => Promise<unknown> = async () => undefined,
    options: SessionOptions = { ttlMs: null },
  ): Promise<void> {
    const dying = this.another();
    await live(await dying.session(id, options));
    dying.journal.leases.stop();
    this.nowMs += 10 * LEASE_MS;
  }

  /** The recorded status of workers, by title. */
  async workers(): Promise<Record<string, string | null>> {
    const asked = { of: "streams", kind: "worker", limit: 99 } as const;
    const { rows } = await this.another().journal.list<"streams">(asked);
    return Object.fromEntries(rows.map(({ facets }) => [facets.title, facets.status]));
  }

  /** Workers that do this in their sessions, release them, and exit with 0. */
  acting(act: (session: Session) => Promise<unknown>): Pick<SuperviseOptions, "start" | "onEvent"> {
    const work = async (id: string): Promise<void> => {
      const session = await this.another().session(id);
      await act(session);
      await session.close();
    };
    return {
      start: untilThere(join(this.#folder, "$$")),
      onEvent: (event) => {
        if (event.type !== "worker.started" || event.work.kind !== "session") return;
        const end = (): void => writeFileSync(join(this.#folder, String(event.pid)), "");
        work(event.work.session).then(end, end);
      },
    };
  }

  /** A supervisor that runs until the test ends, and its reports. */
  supervise(options: Omit<SuperviseOptions, "signal">, own = this.another()) {
    const controller = new AbortController();
    const events: SupervisorEvent[] = [];
    let looks = 0;
    const look = own.journal.list.bind(own.journal);
    own.journal.list = (request) => {
      if (request.of === "leases") looks += 1;
      return look(request);
    };
    const base = { everyMs: 5, backoffMs: 60_000, parallel: 9 };
    const onEvent = (event: SupervisorEvent): void => {
      events.push(event);
      options.onEvent?.(event);
    };
    const done = own.supervise({ ...base, ...options, onEvent, signal: controller.signal });
    const stop = async (): Promise<void> => {
      controller.abort();
      await done;
    };
    this.#stops.push(stop);
    return {
      of: <Type extends SupervisorEvent["type"]>(type: Type) =>
        events.filter((event): event is Extract<SupervisorEvent, { type: Type }> => event.type === type),
      started: () =>
        events.flatMap((event) =>
          event.type === "worker.started" && event.work.kind === "session" ? [event.work.session] : [],
        ),
      ended: () => events.flatMap((event) => (event.type === "worker.ended" ? [event.how] : [])),
      /** Waits for a few more sweeps and the starts after them. */
      looks: async () => {
        const enough = looks + 4;
        await poll(() => looks).toBeGreaterThan(enough);
      },
      stop,
    };
  }

  async dispose(): Promise<void> {
    for (const stop of this.#stops) await stop();
    rmSync(this.#folder, { recursive: true });
  }
}
