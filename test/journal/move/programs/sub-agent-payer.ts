// An agent whose sub-agent charges a card. Prints each charge with the vendor's key. With `die`, it is killed
// when the sub-agent is done but not yet recorded.

import { agentTool, type Model, open, tool } from "holdfast";

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

const charge = tool({
  name: "charge",
  description: "Charge a card",
  effect: "mutate",
  idempotent: true,
  input: anything,
  execute: async (_, { key }) => {
    process.stdout.write(`charge ${key}\n`);
    return { ok: true };
  },
});

function calling(name: string, said: string): Model {
  return async ({ messages }) => {
    if (messages.at(-1)?.role === "tool") return { message: { text: said } };
    return { message: { blocks: [{ kind: "tool_call", id: `c-${name}`, name, args: {} }] } };
  };
}

const [, , store, mode] = process.argv;

const sub = agentTool({
  name: "sub",
  description: "Pays",
  input: anything,
  run: (_, child) => child.run({ model: calling("charge", "charged"), tools: [charge], prompt: "Pay." }),
});

const dying = {
  ...sub,
  execute: async (...given: Parameters<typeof sub.execute>) => {
    const result = await sub.execute(...given);
    if (mode === "die") process.kill(process.pid, "SIGKILL");
    return result;
  },
};

const holdfast = await open(store);
const session = await holdfast.session("parent");
const result = await session.run({ model: calling("sub", "all done"), tools: [dying], prompt: "Go." });
process.stdout.write(`${result.status} ${result.text}\n`);
await session.close();
await holdfast.close();
