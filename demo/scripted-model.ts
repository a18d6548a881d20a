/**
 * The model: scripted, so that the demo needs no API key. Like a real model it never says the same thing
 * twice: each answer has other words and other call ids. So an agent that asks again for a turn that it
 * already has is found out by both.
 */

import type { Block, ModelResponse } from "../src/index.ts";

export const ORDERS = [
  { orderId: "4711", cents: 4_900, customer: "ann@example.com" },
  { orderId: "4712", cents: 12_050, customer: "bob@example.com" },
  { orderId: "4713", cents: 780, customer: "cat@example.com" },
] as const;

interface Turn {
  readonly words: readonly [string, string, string];
  readonly calls: readonly { readonly name: string; readonly args: Record<string, string | number> }[];
}

const SCRIPT: readonly Turn[] = [
  {
    words: ["What is still open?", "First, the open orders.", "Let me see which orders are open."],
    calls: [{ name: "find_orders", args: { status: "open" } }],
  },
  {
    words: ["Three of them: charge, mail, page, report.", "A plan, then.", "I will go step by step."],
    calls: [{ name: "set_plan", args: { steps: "charge 3 orders; mail 3 receipts; page the desk; report" } }],
  },
  {
    words: ["Charging all three.", "Now the payments.", "The cards first."],
    calls: ORDERS.map(({ orderId, cents }) => ({ name: "charge", args: { orderId, cents } })),
  },
  {
    words: ["Paid. The receipts go out.", "Receipts for everybody.", "Mailing what they paid."],
    calls: ORDERS.map(({ orderId, customer }) => ({ name: "send_mail", args: { to: customer, orderId } })),
  },
  {
    words: ["The desk should know.", "Paging the desk.", "A word to the desk."],
    calls: [{ name: "page", args: { desk: "billing", text: "3 orders charged and mailed" } }],
  },
  {
    // Models forget. This one charges an order a second time, with another argument.
    words: ["Did I charge 4711? Once more.", "4711 again, to be sure.", "Better charge 4711."],
    calls: [{ name: "charge", args: { orderId: "4711", cents: 4_900, memo: "to be sure" } }],
  },
  {
    words: ["It was. Now the report.", "All done: the report.", "Writing it down."],
    calls: [{ name: "write_file", args: { file: "report.md", text: "# Closing\n\n3 charged, 3 mailed.\n" } }],
  },
  { words: ["3 orders closed.", "Everything is closed.", "Done: 3 of 3."], calls: [] },
];

const TURNS = SCRIPT.length;

/**
 * The answer to a transcript with `turn` answers. `asked` counts all questions, so that no two answers are
 * alike.
 */
export function answer(turn: number, asked: number): ModelResponse {
  const { words, calls } = SCRIPT[Math.min(turn, TURNS - 1)] as Turn;
  const blocks: Block[] = [{ kind: "text", text: words[asked % words.length] as string }];
  for (const [index, { name, args }] of calls.entries()) {
    blocks.push({ kind: "tool_call", id: `c${asked}${"abc"[index]}`, name, args });
  }
  return { message: { blocks }, usage: { usd: 0.004, tokens: 900 } };
}
