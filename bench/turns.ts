/**
 * Turns of an agent, always the same ones: an assistant message that thinks, speaks and calls a tool, and
 * the tool's answer. About 4 KB together, between 3 and 5, because rows of one exact size would fill pages
 * unlike real ones.
 */

import type { MessageInput } from "../src/index.ts";

export interface Turn {
  readonly messages: readonly (MessageInput & { readonly id: string })[];
  /** The text that the raw floor stores. */
  readonly json: string;
}

const WORDS = `the a to of and in is for that it with as on this be are by from or an at not have was can if
  all will one which when there so do use other new more only then each after before between order payment
  customer invoice refund checkout retry timeout request response header token session deploy branch commit
  review test failure assertion stack trace module import export function return value null undefined string
  number array object schema column index table query transaction commit lock lease writer reader page cursor
  latency percentile throughput budget plan step task decision blocker because therefore however meanwhile
  "quoted" src/checkout/cart.ts https://example.com/orders/4711 naïve café 2026-01-31T12:00:00Z 19.99 0x7f`
  .split(/\s+/)
  .filter((word) => word !== "");

/** A small generator (mulberry32): equal seeds give equal numbers, in [0, 1). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Sentences and line breaks, of this length or a word more. */
export function prose(next: () => number, length: number): string {
  let text = "";
  while (text.length < length) {
    const word = WORDS[Math.floor(next() * WORDS.length)] ?? "";
    const end = next();
    text += `${word}${end < 0.06 ? ".\n" : end < 0.16 ? ", " : " "}`;
  }
  return text;
}

/** Equal seeds give the same text of the same length; `number` makes the ids. */
export function makeTurn(seed: number, number = seed): Turn {
  const next = random(seed);
  const name = String(number).padStart(6, "0");
  const scale = 0.75 + next() * 0.5;
  const createdAt = new Date(Date.UTC(2026, 0, 1) + seed * 1000).toISOString();
  const call = { id: `call_${name}`, name: "search_files", args: { pattern: prose(next, 60), limit: 20 } };
  const messages: Turn["messages"] = [
    {
      id: `message-${name}`,
      role: "assistant",
      createdAt,
      blocks: [
        { kind: "reasoning", text: prose(next, 900 * scale) },
        { kind: "text", text: prose(next, 700 * scale) },
        { kind: "tool_call", ...call },
      ],
    },
    {
      id: `message-${name}.results`,
      role: "tool",
      createdAt,
      blocks: [{ kind: "tool_result", callId: call.id, content: prose(next, 1_900 * scale) }],
    },
  ];
  return { messages, json: JSON.stringify(messages) };
}

export function makeTurns(count: number, firstSeed = 1): Turn[] {
  return Array.from({ length: count }, (_, index) => makeTurn(firstSeed + index));
}
