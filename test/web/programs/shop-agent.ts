// An agent of a shop: it works off a list of calls, one turn each. It can hang in a call, so that a test can
// kill it there, and it waits for a person's answer and goes on at once.
//
//     node shop-agent.mjs <store> <session> '{ "calls": [["charge", { "order": 1 }]], "hang": true }'

import { type Model, open, type ToolCallBlock, tool } from "holdfast";

interface Script {
  readonly calls: readonly (readonly [tool: string, args: Record<string, unknown>])[];
  readonly title?: string;
  readonly goal?: string;
  /** Never returns from the last call. */
  readonly hang?: boolean;
  /** The last call throws, so that its outcome is unknown. */
  readonly doubt?: boolean;
  readonly budget?: number;
  /** The last call returns a text of so many characters. */
  readonly large?: number;
  /** Runs again until the work is done, as a supervisor would. */
  readonly until?: "done";
}

const [store = "", id = "", json = "{}"] = process.argv.slice(2);
const script = JSON.parse(json) as Script;
const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

let made = 0;
async function execute(args: unknown): Promise<unknown> {
  made += 1;
  const isLast = JSON.stringify(args) === JSON.stringify(script.calls.at(-1)?.[1]);
  process.stdout.write(`executing ${JSON.stringify(args)}\n`);
  if (isLast && script.hang) await new Promise((resolve) => setTimeout(resolve, 600_000));
  if (isLast && script.doubt && made <= script.calls.length)
    throw new Error("socket hang up after the request was sent");
  if (isLast && script.large) return { ok: true, text: "x".repeat(script.large) };
  return { ok: true, receipt: `re_${made}` };
}

const named = { description: "Part of the shop", input: anything, execute };
const tools = [
  tool({ ...named, name: "look_up", effect: "read" }),
  tool({ ...named, name: "charge", effect: "mutate" }),
  tool({ ...named, name: "send_mail", effect: "mutate" }),
  tool({ ...named, name: "refund", effect: "mutate", needsApproval: true }),
  tool({ ...named, name: "wire", effect: "mutate", needsApproval: true, requireApprover: true }),
];

const usage = (turn: number) => ({
  usd: 0.004 + 0.0017 * ((turn * 7) % 5),
  tokens: 900 + 240 * ((turn * 3) % 7),
});
const model: Model = async ({ messages }) => {
  const turn = messages.filter(({ role }) => role === "tool").length;
  const next = script.calls[turn];
  if (!next) return { message: { text: "Everything is done." }, usage: usage(turn) };
  const [name, args] = next;
  const call: ToolCallBlock = { kind: "tool_call", id: `c_${id}_${turn + 1}`, name, args: args as never };
  return {
    message: { blocks: [call], meta: { model: turn % 3 === 2 ? "small-1" : "large-2" } },
    usage: usage(turn),
  };
};

const { title, goal, budget, large } = script;
// A large result keeps the process busy, and a loaded machine makes that longer than a short lease.
const holdfast = await open(store, { leaseMs: large ? 60_000 : 2_000 });
const session = await holdfast.session(id, {
  label: "shop-agent",
  ...(title && { title }),
  ...(goal && { goal }),
  metadata: { shop: "berlin" },
});
const options = {
  model,
  tools,
  prompt: { id: "work", text: title ?? "Work off the list." },
  ...(budget && { budget: { usd: budget, perCall: { usd: 0.005 } } }),
};
let result = await session.run(options);
process.stdout.write(`${result.status}\n`);
// A watch alone does not keep a process alive.
const alive = setInterval(() => undefined, 60_000);
while (script.until === "done" && result.status !== "done") {
  // Woken by the answer itself, which is a write to the session.
  await new Promise<void>((resolve) => {
    const stop = holdfast.journal.watch(`session/${id}`, () => {
      stop();
      resolve();
    });
  });
  result = await session.run(options);
  process.stdout.write(`${result.status}\n`);
}
clearInterval(alive);
await holdfast.close();
