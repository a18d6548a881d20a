/** Compares the world's own log with the ledger: what really happened, and what the agent knows about it. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Call, SessionDetail } from "../src/index.ts";
import { callsOf, subjectOf } from "./recovery.ts";
import { ORDERS } from "./scripted-model.ts";
import type { Answered, Effect } from "./world.ts";

export interface Row {
  readonly effect: Effect;
  /** How often the world has it. */
  readonly times: number;
  readonly call: Call | null;
}

export interface Audit {
  readonly rows: readonly Row[];
  readonly world: number;
  readonly ledger: number;
  readonly doubled: number;
  readonly lost: number;
  readonly answers: number;
  /** All deviations, in words. */
  readonly problems: readonly string[];
}

const EXPECTED = [
  ...ORDERS.map(({ orderId }) => `payment ${orderId}`),
  ...ORDERS.map(({ customer }) => `mail ${customer}`),
  "page billing",
];

export function readWorld(log: string): { effects: Effect[]; answers: Answered[] } {
  const lines = readFileSync(log, "utf8").trim().split("\n");
  const all = lines.map((line) => JSON.parse(line) as Effect | Answered);
  return {
    effects: all.filter((line) => line.kind !== "answer"),
    answers: all.filter((line) => line.kind === "answer"),
  };
}

export function audit(session: SessionDetail, log: string, folder: string): Audit {
  const { effects, answers } = readWorld(log);
  const calls = session.calls.filter((call) => call.effect === "mutate" && call.status === "completed");
  const byKey = new Map(calls.map((call) => [call.vendorKey, call]));
  const times = new Map<string, number>();
  for (const effect of effects) times.set(nameOf(effect), (times.get(nameOf(effect)) ?? 0) + 1);
  const rows = [...times].map(([name, count]) => {
    const effect = effects.find((each) => nameOf(each) === name) as Effect;
    return { effect, times: count, call: byKey.get(effect.key) ?? null };
  });
  const inWorld = new Set(effects.map((effect) => effect.key));
  const missing = EXPECTED.filter((name) => !times.has(name));
  const unheard = calls.filter((call) => !inWorld.has(call.vendorKey));
  const doubled = rows.filter((row) => row.times > 1);
  const problems = [
    ...doubled.map((row) => `${nameOf(row.effect)} happened ${row.times} times`),
    ...rows
      .filter((row) => !row.call)
      .map((row) => `${nameOf(row.effect)} happened, but the ledger has no call for it`),
    ...missing.map((name) => `${name} never happened`),
    ...unheard.map(
      (call) => `${call.tool} ${call.callId} is completed in the ledger, but not in the world's log`,
    ),
    ...rereadAnswers(session, answers),
    ...wrongFiles(session, folder),
  ];
  return {
    rows,
    world: effects.length,
    ledger: calls.length,
    doubled: effects.length - rows.length,
    lost: missing.length + unheard.length,
    answers: answers.length,
    problems,
  };
}

function nameOf({ kind, subject }: Effect): string {
  return `${kind} ${subject}`;
}

/** Every answer of the model is in the transcript unchanged, so no turn was asked for twice. */
function rereadAnswers(session: SessionDetail, answers: readonly Answered[]): string[] {
  const spoken = session.messages.filter((message) => message.role === "assistant");
  const words = spoken.map((message) => message.blocks.find((block) => block.kind === "text")?.text ?? "");
  const given = answers.map((answer) => answer.words);
  if (JSON.stringify(words) === JSON.stringify(given)) return [];
  return [
    `the model answered ${given.length} times, but ${words.length} are on record: a turn was asked for again`,
  ];
}

function wrongFiles(session: SessionDetail, folder: string): string[] {
  const written = session.messages.flatMap(callsOf).filter((block) => block.name === "write_file");
  const names = new Set(written.map(subjectOf));
  const there = readdirSync(folder).filter((name) => /\.md(\.|$)/.test(name));
  const problems = there.filter((name) => !names.has(name)).map((name) => `${name} was left behind`);
  for (const block of written) {
    const { file, text } = block.args as { file: string; text: string };
    if (!there.includes(file) || readFileSync(join(folder, file), "utf8") !== text) {
      problems.push(`${file} is not what was written`);
    }
  }
  return problems;
}
