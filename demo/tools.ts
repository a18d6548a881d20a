/** The agent's tools. Each one declares what a crash in the middle of it means. */

import { rename, writeFile as write } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type ExecuteContext, landed, never, type Session, type Tool, tool } from "../src/index.ts";

const DAY_MS = 24 * 3_600_000;

type Sender = Pick<ExecuteContext, "key" | "token" | "signal">;

async function send<Result>(url: string, body: object, { key, token, signal }: Sender): Promise<Result> {
  const headers = { "idempotency-key": key, "x-token": String(token), "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (response.ok) return response.json() as Promise<Result>;
  throw Object.assign(new Error(await response.text()), { status: response.status });
}

async function find<Result>(url: string, { key, token, signal }: Sender): Promise<Result | null> {
  const response = await fetch(`${url}?key=${key}&token=${token}`, { signal });
  return ((await response.json()) as { found: Result | null }).found;
}

export function toolsFor(world: string, folder: string, session: Session): Tool[] {
  return [...workspaceTools(world, folder, session), ...vendorTools(world)];
}

/** Tools that read, or that set a state and may simply be repeated. */
function workspaceTools(world: string, folder: string, session: Session): Tool[] {
  const findOrders = tool({
    name: "find_orders",
    description: "Orders by status",
    input: z.object({ status: z.string() }),
    effect: "read",
    execute: async (_, { signal }) => (await fetch(`${world}/orders`, { signal })).json(),
  });

  const setPlan = tool({
    name: "set_plan",
    description: "Say what you will do, step by step",
    input: z.object({ steps: z.string() }),
    effect: "write",
    idempotent: true,
    execute: async ({ steps }) => {
      const pending = { status: "pending", postconditions: [], evidence: [] } as const;
      const described = steps
        .split("; ")
        .map((description, n) => ({ id: `${n + 1}`, description, ...pending }));
      await session.setPlan({ steps: described });
    },
  });

  const writeFile = tool({
    name: "write_file",
    description: "Write a file of the workspace",
    input: z.object({ file: z.string(), text: z.string() }),
    effect: "write",
    idempotent: true,
    execute: async ({ file, text }, { key }) => {
      const temporary = join(folder, `${file}.${key}`);
      await write(temporary, text);
      await rename(temporary, join(folder, file));
      return `${text.length} characters`;
    },
  });

  return [findOrders, setPlan, writeFile];
}

/** Tools that do something that counts. */
function vendorTools(world: string): Tool[] {
  // Once per order, over all callers. The vendor knows our key, so a missing payment will not appear later.
  const charge = tool({
    name: "charge",
    description: "Charge the customer's card for an order",
    input: z.object({ orderId: z.string(), cents: z.number(), memo: z.string().optional() }),
    effect: "mutate",
    dedupe: { scope: "global", key: ({ orderId }) => `order:${orderId}` },
    idempotent: { forMs: DAY_MS },
    execute: (args, context) => send<{ payment: string }>(`${world}/payments`, args, context),
    verify: async (_, context) => {
      const payment = await find<{ payment: string }>(`${world}/payments`, context);
      return payment ? landed(payment) : never();
    },
  });

  // The mail service would send twice. A look-up with our token shuts out every sender with an older one.
  const sendMail = tool({
    name: "send_mail",
    description: "Mail a receipt",
    input: z.object({ to: z.string(), orderId: z.string() }),
    effect: "mutate",
    execute: (args, context) => send<{ mail: string }>(`${world}/mails`, args, context),
    verify: async (_, context) => {
      const mail = await find<{ mail: string }>(`${world}/mails`, context);
      return mail ? landed(mail) : never();
    },
  });

  // The pager cannot be asked what it has done. In doubt a person looks.
  const page = tool({
    name: "page",
    description: "Page a desk",
    input: z.object({ desk: z.string(), text: z.string() }),
    effect: "mutate",
    execute: (args, context) => send<{ paged: string }>(`${world}/pages`, args, context),
  });

  return [charge, sendMail, page];
}
