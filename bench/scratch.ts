import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Holdfast, open } from "../src/index.ts";
import { openRaw, type RawDatabase } from "./raw-database.ts";
import { Replay } from "./replay.ts";
import { makeTurns } from "./turns.ts";

/** Enough turns for SQLite to copy its log into the file once, whoever writes them. */
const WARM_TURNS = 400;
/** Enough turns for V8 to have compiled what a turn runs: a process that makes hundreds of commits soon has. */
const COMPILED_TURNS = 5_000;

/**
 * A folder on the project's own disk: a folder for temporary files may be in memory, where a durable commit costs
 * nothing and every ratio would be one of processor time only. Raw and ours always lie side by side in it.
 */
export class Scratch {
  readonly path: string;
  private readonly opened: { close(): unknown }[] = [];
  private count = 0;
  private warming: Holdfast | undefined;

  constructor() {
    this.path = mkdtempSync(join("node_modules", ".bench-"));
  }

  file(name: string): string {
    this.count += 1;
    return join(this.path, `${this.count}-${name}.db`);
  }

  async openOurs(file = this.file("ours")): Promise<Holdfast> {
    const holdfast = await open(file);
    this.opened.push(holdfast);
    return holdfast;
  }

  async openRaw(file = this.file("raw")): Promise<RawDatabase> {
    const raw = await openRaw(file);
    this.opened.push(raw);
    return raw;
  }

  async openReplay(): Promise<Replay> {
    const replay = await Replay.open(this.file("replay"));
    this.opened.push(replay);
    return replay;
  }

  /**
   * Until SQLite has copied its log into the file for the first time, the log's file grows with every commit, and
   * syncing a growing file costs more. What makes few commits is measured after that, on both sides.
   */
  async warmUp(ours: Holdfast): Promise<void> {
    const session = await ours.session("warm-up");
    for (const { messages } of makeTurns(WARM_TURNS)) await session.append(messages, { checkpoint: true });
    await session.close();
  }

  /**
   * Measures what a process costs that has been at work for a while, not how V8 starts. Recording replaces methods, and
   * closing a file on Node 20 collects all garbage, the shapes of short-lived objects with it: after either V8 throws away
   * what it has compiled, so what one session does is timed right after this.
   */
  async warmCode(): Promise<void> {
    this.warming ??= await this.openOurs();
    this.count += 1;
    const session = await this.warming.session(`warm-up-${this.count}`);
    for (const { messages } of makeTurns(COMPILED_TURNS))
      await session.append(messages, { checkpoint: true });
    await session.close();
  }

  async remove(): Promise<void> {
    for (const each of this.opened) await each.close();
    rmSync(this.path, { recursive: true, force: true });
  }
}
