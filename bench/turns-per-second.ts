/**
 * How many turns a second the loop makes if the model answers at once. A turn with a mutating call is three
 * durable commits: message, intent, outcome with results. A turn with a reading call is two, and a plain
 * answer to a prompt is two: prompt, answer. There is no bar, because the disk decides.
 */

import { type Holdfast, type Model, type Tool, tool } from "../src/index.ts";
import type { Measure } from "./measure.ts";
import { anything } from "./schema.ts";
import { median, rounded } from "./statistics.ts";
import { prose, random } from "./turns.ts";

const TURNS = 50;
const REPEATS = 3;

export const turnsPerSecond: Measure = {
  name: "turnsPerSecond",
  what: "turns of session.run with a model that answers at once and a mutating tool",
  bar: null,
  direction: "at least",
  async run(scratch) {
    const holdfast = await scratch.openOurs();
    const rates = { mutating: [] as number[], reading: [] as number[], plain: [] as number[] };
    for (let repeat = 0; repeat < REPEATS; repeat++) {
      rates.mutating.push(await rate(() => withTool(holdfast, `mutating-${repeat}`, "mutate")));
      rates.reading.push(await rate(() => withTool(holdfast, `reading-${repeat}`, "read")));
      rates.plain.push(await rate(() => withoutTool(holdfast, `plain-${repeat}`)));
    }
    const value = rounded(median(rates.mutating), 0);
    const numbers = {
      withMutatingTool: value,
      withReadingTool: rounded(median(rates.reading), 0),
      withoutTool: rounded(median(rates.plain), 0),
      turnsPerRun: TURNS,
    };
    return { value, numbers };
  },
};

async function rate(run: () => Promise<void>): Promise<number> {
  const before = performance.now();
  await run();
  return (1000 * TURNS) / (performance.now() - before);
}

const next = random(1);

async function withTool(holdfast: Holdfast, id: string, effect: "mutate" | "read"): Promise<void> {
  const session = await holdfast.session(id);
  const act = tool({
    name: "act",
    description: "Does something.",
    input: anything,
    effect,
    execute: () => prose(next, 400),
  }) as unknown as Tool;
  let turn = 0;
  const model: Model = async () => {
    turn += 1;
    if (turn > TURNS) return { message: { text: "Done." } };
    const call = { kind: "tool_call", id: `call-${turn}`, name: "act", args: { turn } } as const;
    return { message: { blocks: [{ kind: "text", text: prose(next, 600) }, call] } };
  };
  const result = await session.run({ model, tools: [act], prompt: "Go." });
  if (result.status !== "done" || turn !== TURNS + 1) throw new Error(`the run ended ${result.status}`);
  await session.close();
}

async function withoutTool(holdfast: Holdfast, id: string): Promise<void> {
  const session = await holdfast.session(id);
  const model: Model = async () => ({ message: { text: prose(next, 600) } });
  for (let turn = 1; turn <= TURNS; turn++)
    await session.run({ model, prompt: { id: `prompt-${turn}`, text: "Go." } });
  await session.close();
}
