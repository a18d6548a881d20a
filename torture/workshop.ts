/** Shared by all cases of a run: the bundles, one world, and a place for temporary folders. */

import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Bundle, bundle, type Mutation } from "./bundle.ts";
import { type Child, killAll, startNode } from "./processes.ts";
import { layStore, openStore } from "./store-under-test.ts";

export class Workshop {
  readonly bundle: Bundle;
  readonly world: string;
  readonly folder: string;
  private readonly worldProcess: Child;

  private constructor(folder: string, made: Bundle, world: string, worldProcess: Child) {
    this.folder = folder;
    this.bundle = made;
    this.world = world;
    this.worldProcess = worldProcess;
  }

  /** `wanted`: the programs that its cases start. The world is always included. */
  static async open(wanted?: readonly (keyof Bundle)[]): Promise<Workshop> {
    const folder = mkdtempSync(join(scratch(), "holdfast-torture-"));
    // Also if the run is interrupted: an exit handler always runs.
    process.once("exit", () => {
      killAll();
      rmSync(folder, { recursive: true, force: true });
    });
    try {
      const made = await bundle(folder, [], wanted);
      const world = join(folder, "world.sock");
      const child = startNode(made.world, [world], { limitMs: 2 ** 31 - 1 });
      await child.event("listening");
      mkdirSync(join(folder, "empty"));
      await (await openStore(join(folder, "empty"))).close();
      return new Workshop(folder, made, world, child);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** The same workshop, with bugs planted in the agent's source. */
  async mutated(mutations: readonly Mutation[]): Promise<Workshop> {
    const folder = mkdtempSync(join(this.folder, "mutated-"));
    const { agent } = await bundle(folder, mutations, ["agent"]);
    return new Workshop(this.folder, { ...this.bundle, agent }, this.world, this.worldProcess);
  }

  /** A fresh folder, deleted when `work` is done. */
  async within<Result>(work: (dir: string) => Promise<Result>): Promise<Result> {
    const dir = mkdtempSync(join(this.folder, "case-"));
    try {
      return await work(dir);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }

  /** Copies an empty store into place, for cases that are not about creating a store. */
  readonly layStore = (dir: string): void => {
    layStore(join(this.folder, "empty"), dir);
  };

  async close(): Promise<void> {
    this.worldProcess.kill("SIGKILL");
    await this.worldProcess.ended;
    killAll();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** In memory if possible: the torture checks what is written, not how fast. */
export function scratch(): string {
  return existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
}
