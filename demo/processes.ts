/** The two other processes of the demo. Each exits when its channel to the demo closes. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "./agent.ts";
import type { Kill } from "./kills.ts";
import type { Moment } from "./world.ts";

const COMMIT_LIMIT_MS = 250;
const LOOK_AGAIN_MS = 100;

const children = new Set<ChildProcess>();

function start(script: string, args: readonly string[], env: Record<string, string> = {}): ChildProcess {
  const { HOLDFAST_FAILPOINT: _, ...inherited } = process.env;
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    env: { ...inherited, ...env },
  });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

/** Ends all running processes and waits until they are gone. */
export async function endAll(): Promise<void> {
  const running = [...children];
  await Promise.all(
    running.map(async (child) => {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    }),
  );
}

export class World {
  readonly url: string;
  private readonly child: ChildProcess;
  private conductor: ((moment: Moment) => void) | null = null;

  private constructor(child: ChildProcess, url: string) {
    this.child = child;
    this.url = url;
    child.on("message", (moment: Moment) => {
      if (this.conductor) this.conductor(moment);
      else this.answer(moment, false);
    });
  }

  static async start(program: string, log: string): Promise<World> {
    const child = start(program, [log]);
    const complaint = errorsOf(child);
    const left = once(child, "exit").then(() => Promise.reject(new Error(`the world ended: ${complaint()}`)));
    const [{ url }] = await Promise.race([once(child, "message"), left]);
    // From now on the agent notices the end of the world, because its requests fail.
    left.catch(() => undefined);
    return new World(child, url);
  }

  conduct(conductor: ((moment: Moment) => void) | null): void {
    this.conductor = conductor;
  }

  answer({ id }: Moment, go: boolean): void {
    if (this.child.connected) this.child.send({ id, go });
  }
}

export interface Ended {
  readonly killed: boolean;
  /** Set if the program failed without being killed. */
  readonly error: string | null;
}

/** One life of the agent, from start to end. `kill`, if given, decides when it ends. */
export async function liveOnce(
  program: string,
  folder: string,
  world: World,
  kill: Kill | null,
  hear: (told: AgentMessage) => void,
): Promise<Ended> {
  const env = kill?.failpoint ? { HOLDFAST_FAILPOINT: kill.failpoint } : {};
  const agent = start(program, [folder, world.url], env);
  const complaint = errorsOf(agent);
  const told: AgentMessage[] = [];
  const applied: Moment[] = [];
  const held = new Map<Moment, number>();
  const life = {
    completed: (tool: string) => told.filter((each) => completes(each, tool)).length,
    applied: (kind: Moment["kind"]) => applied.filter((each) => each.kind === kind).length,
  };
  const decide = (moment: Moment, since: number): void => {
    const verdict = kill?.at?.(moment, life, performance.now() - since) ?? "go";
    if (verdict === "hold") held.set(moment, since);
    else held.delete(moment);
    if (verdict === "go") world.answer(moment, true);
    if (verdict === "kill") {
      held.set(moment, since);
      agent.kill("SIGKILL");
    }
    if (verdict === "kill-in-commit") {
      void killInCommit(agent, folder);
      for (const each of [moment, ...held.keys()]) {
        if (each.stage === "applied") world.answer(each, held.delete(each) || each === moment);
      }
    }
  };
  const lookAgain = (): void => {
    if (agent.killed) return;
    for (const [moment, since] of [...held]) decide(moment, since);
  };
  world.conduct((moment) => {
    if (moment.stage === "applied") applied.push(moment);
    if (agent.killed) held.set(moment, 0);
    else decide(moment, performance.now());
  });
  agent.on("message", (message: AgentMessage) => {
    told.push(message);
    hear(message);
    lookAgain();
  });
  const timer = setInterval(lookAgain, LOOK_AGAIN_MS);
  // `close`, not `exit`: the channel may still hold messages that the agent sent before it died.
  const [code, signal] = (await once(agent, "close")) as [number | null, string | null];
  clearInterval(timer);
  world.conduct(null);
  for (const moment of held.keys()) world.answer(moment, false);
  return { killed: signal === "SIGKILL", error: code === 0 || signal ? null : complaint() };
}

function completes(told: AgentMessage, tool: string): boolean {
  return told.type === "progress" && told.progress.type === "call.completed" && told.progress.tool === tool;
}

/** The write-ahead log grows with every commit; the sync comes after that. */
async function killInCommit(agent: ChildProcess, folder: string): Promise<void> {
  const size = (): number => statSync(join(folder, "store.db-wal")).size;
  const before = size();
  const limit = performance.now() + COMMIT_LIMIT_MS;
  while (size() === before && performance.now() < limit) await new Promise(setImmediate);
  agent.kill("SIGKILL");
}

function errorsOf(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  return () => text.trim();
}
