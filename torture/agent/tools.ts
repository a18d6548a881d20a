/** One tool for every class of the promise's table. All of them do one thing: post to the world. */

import * as z from "zod";
import {
  type ExecuteContext,
  landed,
  never,
  notYet,
  type Tool,
  type ToolSpec,
  tool,
  type VerifyContext,
} from "../../src/index.ts";
import { acknowledge } from "../acks.ts";
import { type AgentConfig, type Behaviour, SETTLE_MS, type ToolName } from "../scenario.ts";
import { post } from "../world/client.ts";

export interface Args {
  readonly item: string;
  readonly world?: Behaviour | undefined;
}

export type TortureTool = ToolSpec<Args, string>;

const input = z.object({
  item: z.string(),
  world: z
    .object({
      lose: z.number().optional(),
      refuse: z.number().optional(),
      delayMs: z.number().optional(),
      landsWhenAsked: z.object({ answerMs: z.number() }).optional(),
      hold: z.literal(true).optional(),
    })
    .optional(),
}) as unknown as TortureTool["input"];

type Mode = "plain" | "keyed" | "fenced" | "read";

/** `sent` is called when a request has left. */
export function makeTools(config: AgentConfig, sent: () => void): Record<ToolName, TortureTool> {
  const make = (name: ToolName, mode: Mode, spec: Partial<TortureTool>): TortureTool =>
    tool<Args, string>({
      name,
      description: `acts on the world: ${name}`,
      input,
      effect: "mutate",
      execute: (args, context) => send(config, name, mode, args, context, sent),
      ...spec,
    });
  const fencing: TortureTool["verify"] = async (args, context) => {
    const result = await ask(config, args, context, true);
    return result === null ? never() : landed(result);
  };
  const timed: TortureTool["verify"] = async (args, context) => {
    const result = await ask(config, args, context, false);
    return result === null ? notYet({ againInMs: 60 }) : landed(result);
  };
  return {
    read: make("read", "read", { effect: "read" }),
    keyed: make("keyed", "keyed", { idempotent: true }),
    fenced: make("fenced", "fenced", { verify: fencing }),
    timed: make("timed", "plain", { verify: timed, settleMs: SETTLE_MS }),
    ask: make("ask", "plain", {}),
    fail: make("fail", "plain", { interrupted: "fail" }),
    once: make("once", "fenced", { dedupe: "global", verify: fencing }),
    onceFail: make("onceFail", "plain", { dedupe: "global", interrupted: "fail" }),
    write: make("write", "keyed", { effect: "write", idempotent: true }),
  };
}

/** Requests in flight. Like most tools these ignore the abort signal: the worst case. */
export const inFlight = new Set<Promise<unknown>>();

async function send(
  config: AgentConfig,
  tool: ToolName,
  mode: Mode,
  { item, world = {} }: Args,
  context: ExecuteContext,
  sent: () => void,
): Promise<string> {
  const { key, session, callId, attempt, token } = context;
  const { dir } = config;
  acknowledge(dir, { t: "start", session, callId, attempt });
  const body = { dir, mode, tool, item, key, session, callId, attempt, token, world };
  const request = post<{ result: string }>(config.world, "/effect", body, undefined, sent);
  const done = request.catch(() => undefined).finally(() => inFlight.delete(done));
  inFlight.add(done);
  return (await request).result;
}

async function ask(
  config: AgentConfig,
  { item }: Args,
  context: VerifyContext,
  fence: boolean,
): Promise<string | null> {
  const { key, session, callId, attempt, token, signal } = context;
  const body = { dir: config.dir, tool: "verify", item, key, session, callId, attempt, token, fence };
  return (await post<{ result: string | null }>(config.world, "/verify", body, signal)).result;
}

export function asList(tools: Record<ToolName, TortureTool>): readonly Tool[] {
  return Object.values(tools) as unknown as Tool[];
}
