/**
 * A fleet: worker processes on one Postgres, a world in a process of its own, and a queue that hands out
 * sessions.
 *
 *     waiting ──handed to a worker with room──▶ running ──"result"──▶ ended
 *        ▲──────worker killed, or stopped, or its session is held by another──┘
 *
 * The queue may hand a session to two workers: a stopped worker keeps its sessions, and some are handed out
 * twice on purpose. Leases sort that out, not the queue.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Child, type Said, startNode } from "../../torture/processes.ts";
import { scratch } from "../../torture/workshop.ts";
import { programFile } from "../program.ts";
import type { Ending, WorkerConfig } from "./orders.ts";

const FOREVER_MS = 2 ** 31 - 1;

/** The world running, and a place for the records of fleets. */
export class Plant {
  readonly folder: string;
  readonly socket: string;
  readonly #world: Child;

  private constructor(folder: string, world: Child) {
    this.folder = folder;
    this.socket = join(folder, "world.sock");
    this.#world = world;
  }

  static async open(): Promise<Plant> {
    const folder = mkdtempSync(join(scratch(), "holdfast-fleet-"));
    const program = programFile(new URL("../../torture/world/main.ts", import.meta.url));
    const world = startNode(program, [join(folder, "world.sock")], { limitMs: FOREVER_MS });
    await world.event("listening");
    return new Plant(folder, world);
  }

  /** A fresh folder for the records of one fleet. */
  makeDir(): string {
    return mkdtempSync(join(this.folder, "fleet-"));
  }

  async close(): Promise<void> {
    this.#world.kill("SIGKILL");
    await this.#world.ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

interface Worker {
  readonly child: Child;
  /** Sessions that were handed to it and that it has said nothing final about. */
  readonly handed: Set<string>;
  /** Handed sessions whose lease it has reported. */
  readonly taken: Set<string>;
  isReady: boolean;
  isStopped: boolean;
  isDead: boolean;
}

export interface FleetOptions {
  readonly workers: number;
  /** Sessions that one worker runs at once. */
  readonly atOnce: number;
  /** How many of a hundred are handed to a second worker as well, on purpose. 10 unless given. */
  readonly twice?: number;
  readonly sessions: readonly string[];
  /** The configurations of the workers, in turn. */
  readonly configs: readonly WorkerConfig[];
}

export interface Tally {
  kills: number;
  stops: number;
  /** Sessions that another worker took while the one that had them was stopped. */
  takenOver: number;
  /** Sessions that another worker went on with after the one that had them was killed. */
  resumed: number;
  /** How often a worker found its session held by another. */
  refused: number;
  sent: number;
}

export class Fleet {
  readonly tally: Tally = { kills: 0, stops: 0, takenOver: 0, resumed: 0, refused: 0, sent: 0 };
  /** How each session ended. */
  readonly endings = new Map<string, Extract<Ending, { at: "result" }>>();
  readonly #options: FleetOptions;
  readonly #sessions: Set<string>;
  /** How many requests have left for each session. */
  readonly #sent = new Map<string, number>();
  readonly #script: string;
  readonly #workers: Worker[] = [];
  readonly #waiting: string[];
  /** In whose hands each session was when that worker was stopped. */
  readonly #orphans = new Map<string, Worker>();
  /** Sessions that killed workers had started and not ended. */
  readonly #left = new Set<string>();
  readonly #listeners = new Set<() => void>();
  readonly #problems: string[] = [];
  #hasBegun = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#sessions = new Set(options.sessions);
    this.#script = programFile(new URL("programs/worker.ts", import.meta.url));
    this.#waiting = [...options.sessions];
    for (let count = 0; count < options.workers; count++) this.#hire();
  }

  get isDone(): boolean {
    return this.endings.size === this.#sessions.size;
  }

  /**
   * More to do, for a fleet that is through with what it had before everything has happened to it that
   * should.
   */
  add(session: string): void {
    this.#sessions.add(session);
    this.#waiting.push(session);
    this.#handOut();
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /**
   * Resolves when something has changed for which `fits` is true. A worker that ends by itself ends the
   * waiting.
   */
  async until(fits: () => boolean): Promise<void> {
    while (!fits()) {
      if (this.#problems.length > 0) throw new Error(this.#problems.join("\n"));
      await new Promise<void>((resolve) => {
        this.#listeners.add(resolve);
      });
    }
  }

  /**
   * Kills a worker in the middle of its work, and starts another in its place. False where none has any, or
   * none that has sent so many requests for one of its sessions.
   */
  kill(random: () => number, sent = 0): boolean {
    const victim = this.#pick(random, sent);
    if (!victim) return false;
    this.tally.kills += 1;
    victim.isDead = true;
    victim.child.kill("SIGKILL");
    for (const session of victim.taken) {
      if ((this.#sent.get(session) ?? 0) >= sent) this.#left.add(session);
    }
    this.#returnAll(victim);
    this.#hire();
    return true;
  }

  /** Stops a worker in the middle of its work. Its sessions go to others. `wake` resumes it. */
  stop(random: () => number): { wake(): void; isTakenOver(): boolean; isInVain(): boolean } | null {
    // One must be left to work.
    if (this.#workers.filter(({ isStopped, isDead }) => !isStopped && !isDead).length < 2) return null;
    const victim = this.#pick(random);
    if (!victim) return null;
    this.tally.stops += 1;
    victim.isStopped = true;
    victim.child.kill("SIGSTOP");
    for (const session of victim.taken) this.#orphans.set(session, victim);
    this.#returnAll(victim);
    const before = this.tally.takenOver;
    return {
      isTakenOver: () => this.tally.takenOver > before,
      // It had ended all that it had, and we did not know yet.
      isInVain: () => this.tally.takenOver === before && ![...this.#orphans.values()].includes(victim),
      wake: () => {
        if (!victim.isStopped || victim.isDead) return;
        victim.isStopped = false;
        victim.child.kill("SIGCONT");
        this.#handOut();
      },
    };
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) {
      worker.isDead = true;
      worker.child.kill("SIGKILL");
    }
    await Promise.all(this.#workers.map(({ child }) => child.ended));
  }

  #pick(random: () => number, sent = 0): Worker | undefined {
    const able = this.#workers.filter((each) => {
      const isAtWork = [...each.taken].some((session) => (this.#sent.get(session) ?? 0) >= sent);
      return each.isReady && !each.isDead && !each.isStopped && isAtWork;
    });
    return able[Math.floor(random() * able.length)];
  }

  #hire(): void {
    const { configs } = this.#options;
    const config = configs[this.#workers.length % configs.length];
    const child = startNode(this.#script, [JSON.stringify(config)], { limitMs: FOREVER_MS });
    const worker: Worker = {
      child,
      handed: new Set(),
      taken: new Set(),
      isReady: false,
      isStopped: false,
      isDead: false,
    };
    this.#workers.push(worker);
    void this.#listen(worker);
  }

  async #listen(worker: Worker): Promise<void> {
    try {
      for (;;) this.#hear(worker, await worker.child.event(() => true));
    } catch (error) {
      if (!worker.isDead) this.#problems.push(`a worker ended by itself: ${error}`);
      this.#changed();
    }
  }

  #hear(worker: Worker, said: Said): void {
    const session = said["session"] as string;
    switch (said.at) {
      case "ready":
        worker.isReady = true;
        break;
      case "sent":
        this.tally.sent += 1;
        this.#sent.set(session, (this.#sent.get(session) ?? 0) + 1);
        break;
      case "taken":
        if ((this.#orphans.get(session) ?? worker) !== worker) this.tally.takenOver += 1;
        this.#orphans.delete(session);
        if (this.#left.delete(session)) this.tally.resumed += 1;
        worker.taken.add(session);
        break;
      case "result":
        this.endings.set(session, said as unknown as Extract<Ending, { at: "result" }>);
        this.#orphans.delete(session);
        this.#left.delete(session);
        drop(worker, session);
        break;
      case "gone":
        this.tally.refused += 1;
        this.#expect(said);
        drop(worker, session);
        this.#return(session);
    }
    this.#handOut();
    this.#changed();
  }

  /** Accepts only errors that leases cause. */
  #expect(said: Said): void {
    const code = said["code"] as string;
    if (code === "SESSION_HELD" || code === "LEASE_LOST") return;
    this.#problems.push(`session ${said["session"]} failed with ${code}`);
  }

  #returnAll(worker: Worker): void {
    for (const session of worker.handed) this.#return(session);
    if (worker.isDead) worker.handed.clear();
    this.#handOut();
  }

  #return(session: string): void {
    if (!this.endings.has(session) && !this.#waiting.includes(session)) this.#waiting.push(session);
  }

  /** Begins when all are there, so that none of the first ones is left without work. */
  #handOut(): void {
    this.#hasBegun ||= this.#workers.every(({ isReady }) => isReady);
    if (!this.#hasBegun) return;
    const able = this.#workers.filter((each) => each.isReady && !each.isDead && !each.isStopped);
    for (const worker of able.sort((a, b) => a.handed.size - b.handed.size)) {
      while (worker.handed.size < this.#options.atOnce) {
        const index = this.#waiting.findIndex((session) => !worker.handed.has(session));
        const [session] = index < 0 ? [] : this.#waiting.splice(index, 1);
        if (session === undefined) break;
        if (this.endings.has(session)) continue;
        worker.handed.add(session);
        worker.child.send(session);
        // Some are handed out twice: the second worker finds the session held.
        if (Math.random() * 100 < (this.#options.twice ?? 10)) this.#waiting.push(session);
      }
    }
  }

  #changed(): void {
    for (const tell of [...this.#listeners]) tell();
    this.#listeners.clear();
  }
}

function drop(worker: Worker, session: string): void {
  worker.handed.delete(session);
  worker.taken.delete(session);
}
