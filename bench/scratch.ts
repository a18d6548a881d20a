import { mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Holdfast, open } from "../src/index.ts";
import { openRaw, type RawDatabase } from "./raw-database.ts";
import { Replay } from "./replay.ts";
import { makeTurns } from "./turns.ts";

/** Enough turns for SQLite to copy its log into the file once. */
const WARM_TURNS = 400;
/** Enough turns for V8 to compile a turn. A process that makes hundreds of commits gets there soon. */
const COMPILED_TURNS = 5_000;

/**
 * A folder on the project's own disk. A folder for temporary files may be in memory, where a durable commit
 * costs nothing. Raw and ours always lie side by side in it.
 */
export class Scratch {
  readonly path: string;
  private readonly opened: { close(): unknown }[] = [];
  private count = 0;
  private warming: Holdfast | undefined;

  constructor() {
    this.path = mkdtempSync(join("node_modules", ".bench-"));
    process.env["XDG_STATE_HOME"] = resolve(this.path);
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

  /** For what a measure opens itself. The last opened is closed first. */
  closeAtEnd(opened: { close(): unknown }): void {
    this.opened.push(opened);
  }

  /**
   * Until SQLite has copied its log into the file once, the log grows with every commit, and syncing a
   * growing file costs more. Measures with few commits start after that, on both sides.
   */
  async warmUp(ours: Holdfast): Promise<void> {
    const session = await ours.session("warm-up");
    for (const { messages } of makeTurns(WARM_TURNS)) await session.append(messages, { checkpoint: true });
    await session.close();
  }

  /**
   * Warms the code up, because the measures are about a process that has been at work for a while. After
   * recording (which replaces methods) and after closing a file on Node 20 (which collects all garbage) V8
   * discards compiled code. So a measure of one session starts right after this.
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
    for (const each of this.opened.reverse()) await each.close();
    rmSync(this.path, { recursive: true, force: true });
  }
}
