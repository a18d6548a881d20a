/** The fixture of ledger and session tests: a store, processes that can die, tools that leave traces. */

import { z } from "zod";
import {
  type Block,
  Holdfast,
  Journal,
  type Model,
  type Session,
  type Tool,
  type ToolSpec,
  tool,
} from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import type { StoreSubject } from "../../src/testing/index.ts";

/** One program on the store, as far as a test can tell, with its own handle and leases. */
export interface Program {
  readonly holdfast: Holdfast;
  session(id?: string): Promise<Session>;
}

export interface Bench {
  /** The first program. */
  readonly first: Program;
  /** Another program beside it. */
  another(): Promise<Program>;
  /** Kills the other programs: their leases expire, and a new program starts. */
  afterCrash(): Promise<Program>;
  /** Lets time pass. */
  passMs(ms: number): void;
  /** Sets the wall clock forward or back, as an operator or a time server does. */
  jumpMs(ms: number): void;
  dispose(): Promise<void>;
}

/** Long, so that a busy machine does not make a program lose its lease. Tests move the store's clock. */
const LEASE_MS = 60_000;

export async function openBench(subject: StoreSubject): Promise<Bench> {
  const opened = await subject.open();
  const clock = { now: 1_700_000_000_000, steady: 0 };
  const programs: Holdfast[] = [];
  const start = (store: Store): Program => {
    const warn = (error: unknown) => {
      throw error;
    };
    const clocks = { now: () => clock.now, steady: () => clock.steady };
    const holdfast = new Holdfast(new Journal({ store, ...clocks, leaseMs: LEASE_MS, warn }));
    programs.push(holdfast);
    return { holdfast, session: (id = "alpha") => holdfast.session(id, { ttlMs: null, ifHeld: "throw" }) };
  };
  return {
    first: start(opened.store),
    another: async () => start(await opened.another()),
    async afterCrash() {
      for (const program of programs) program.journal.leases.stop();
      await opened.advanceMs?.(10 * LEASE_MS);
      return start(await opened.another());
    },
    passMs(ms) {
      clock.now += ms;
      clock.steady += ms;
    },
    jumpMs(ms) {
      clock.now += ms;
    },
    async dispose() {
      for (const program of programs) program.journal.leases.stop();
      await opened.dispose();
    },
  };
}

export interface World {
  readonly effects: string[];
}

const anything = z.looseObject({});
type Args = Record<string, unknown>;

/** A mutating tool that leaves a trace in the world. */
export function counting(world: World, name: string, spec: Partial<ToolSpec<Args, unknown>> = {}): Tool {
  const whole = tool<Args, unknown>({
    name,
    description: name,
    input: anything,
    effect: "mutate",
    execute: (args) => {
      world.effects.push(`${name} ${JSON.stringify(args)}`);
      return { did: name };
    },
    ...spec,
  });
  return whole;
}

/** Has its effect, and then its process dies before the answer: it never returns. */
export function fatal(
  world: World,
  name: string,
  spec: Partial<ToolSpec<Args, unknown>> = {},
): { tool: Tool; reached: Promise<void> } {
  let reach = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const dying = counting(world, name, {
    ...spec,
    execute: (args) => {
      world.effects.push(`${name} ${JSON.stringify(args)}`);
      reach();
      return new Promise(() => undefined);
    },
  });
  return { tool: dying, reached };
}

/** Gives its answers in order, and then says that it is done. */
export function script(...answers: (string | readonly Block[])[]): Model & { asked: number } {
  const model = async () => {
    const answer = answers[model.asked++] ?? "done";
    return {
      message: typeof answer === "string" ? { text: answer } : { blocks: answer },
      usage: { usd: 0.01 },
    };
  };
  model.asked = 0;
  return model;
}

export function callBlock(id: string, name: string, args: Args = {}): Block {
  return { kind: "tool_call", id, name, args: args as never };
}
