import { Agent, type ModelRequest, run } from "@openai/agents";
import { z } from "zod";
import { type Holdfast, open, type Session } from "../../../src/index.ts";
import {
  type Durable,
  type DurableInput,
  type DurableOptions,
  durable,
} from "../../../src/integrations/openai-agents/index.ts";
import { ScriptedModel } from "./scripted-model.ts";

/** One start of the program, which knows only the stored data. */
export interface Started {
  readonly session: Session;
  readonly d: Durable;
  readonly agent: Agent;
  readonly model: ScriptedModel;
}

interface How {
  readonly options?: DurableOptions;
  readonly needsApproval?: boolean;
  /** The model fails at this question of the program. */
  readonly failsAt?: number;
  readonly sessionId?: string;
}

/** A shop on one store. Its model charges the last order that the user named, and then reports it. */
export class Shop {
  readonly world: string[] = [];
  readonly holdfast: Holdfast;

  private constructor(holdfast: Holdfast) {
    this.holdfast = holdfast;
  }

  static async open(): Promise<Shop> {
    return new Shop(await open("memory:"));
  }

  async started<Result>(how: How, body: (started: Started) => Promise<Result>): Promise<Result> {
    const session = await this.holdfast.session(how.sessionId ?? "s");
    const d = durable(session, how.options);
    const charge = d.tool({
      name: "charge",
      description: "Charges an order",
      parameters: z.object({ order: z.string() }),
      needsApproval: how.needsApproval ?? false,
      execute: ({ order }) => {
        this.world.push(order);
        return `charged ${order}`;
      },
    });
    const model: ScriptedModel = new ScriptedModel((request) => {
      if (model.asked.length === how.failsAt) throw new Error("the provider is down");
      const [order, ...since] = lastSaid(request);
      return since.some((each) => each.startsWith("result"))
        ? [{ text: `paid ${order}` }]
        : [{ call: "charge", args: { order } }];
    });
    const agent = new Agent({ name: "Shop", model: d.model(model), tools: [charge] });
    try {
      return await body({ session, d, agent, model });
    } finally {
      await session.close();
    }
  }

  /** Runs one input to its end. */
  ask(input: DurableInput, how: How & { readonly stream?: boolean } = {}): Promise<string> {
    return this.started(how, async ({ d, agent }) => {
      if (!how.stream)
        return String((await run(agent, await d.input(input), { session: d.session })).finalOutput);
      const streamed = await run(agent, await d.input(input), { session: d.session, stream: true });
      await streamed.completed;
      return String(streamed.finalOutput);
    });
  }

  items(): Promise<string[]> {
    return this.started({}, async ({ d }) => short(await d.session.getItems()));
  }
}

/** The user's last message, and the items after it. */
function lastSaid({ input }: ModelRequest): string[] {
  const all = short(typeof input === "string" ? [{ role: "user", content: input }] : input);
  const last = all.findLastIndex((each) => each.startsWith("user "));
  return [all[last]?.slice("user ".length) ?? "", ...all.slice(last + 1)];
}

/** A short form of items. */
export function short(items: readonly object[]): string[] {
  return items.map((item) => {
    const { type, role, arguments: args, content } = item as { [name: string]: unknown };
    if (type === "function_call") return `call ${(JSON.parse(String(args)) as { order: string }).order}`;
    if (type === "function_call_result") return "result";
    const text = typeof content === "string" ? content : (content as { text: string }[])[0]?.text;
    return `${role} ${text}`;
  });
}
