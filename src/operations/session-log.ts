/** The log of a session in words: one line per event, for a person who wants to know what happened. */

import type { Block, SessionEvents, SessionState } from "../model/session/index.ts";
import type { Event, EventSpec } from "../model/stream/index.ts";

export interface LogLine {
  readonly seq: number;
  readonly at: string;
  readonly type: string;
  /** One word for what happened. */
  readonly word: string;
  readonly text: string;
}

type Told = readonly [word: string, text: string];

/** One for every event of a session, each with the data of its own. */
type Tellers = {
  readonly [Type in keyof SessionEvents]: SessionEvents[Type] extends EventSpec<SessionState, infer Data>
    ? (data: Data) => Told
    : never;
};

const TEXT_LIMIT = 300;

const TELLERS: Tellers = {
  "session.opened": ({ title, goal }) => [
    "opened",
    [title, goal && `for goal ${goal}`].filter(Boolean).join(" "),
  ],
  "session.described": (data) => ["described", Object.keys(data).join(", ")],
  "session.status": ({ status, why, by }) => [status, [by && `by ${by}`, why].filter(Boolean).join(": ")],
  "session.forked": ({ session, version }) => ["forked", `from ${session} at version ${version}`],
  "session.effects": ({ effects, by, why }) => [
    "effects",
    [by ? `${effects} by ${by}` : effects, why].filter(Boolean).join(": "),
  ],
  "session.taken": ({ owner, token, host, pid, from }) => [
    from === null ? "taken" : "resumed",
    `${from === null ? "" : `${from} was lost; `}${owner} (${host}, pid ${pid}), token ${token}`,
  ],
  message: ({ message }) => [message.role, blocksText(message.blocks)],
  results: ({ blocks }) => [
    "results",
    blocks.map((block) => ("call" in block ? block.call : block["callId"])).join(", "),
  ],
  "transcript.replaced": ({ segments, why }) => [
    "replaced",
    why ?? `the transcript, ${segments.length} segments`,
  ],
  "plan.set": ({ plan }) => ["plan", plan === null ? "cleared" : `${plan.steps.length} steps`],
  "budget.limited": ({ limits, by }) => ["limit", `${amountsText(limits)}${by ? ` by ${by}` : ""}`],
  "budget.reserved": ({ amounts }) => ["reserved", amountsText(amounts)],
  "budget.settled": ({ spent, lost }) => [
    "spent",
    `${amountsText(spent)}${lost ? ", never heard back" : ""}`,
  ],
  "budget.spent": ({ amounts }) => ["spent", amountsText(amounts)],
  checkpoint: ({ version, label }) => ["version", `${version}${label ? ` ${label}` : ""}`],
  "checkpoint.deleted": ({ version }) => ["dropped", `version ${version}`],
  "prompt.queued": ({ by, blocks }) => ["prompt", `by ${by}: ${blocksText(blocks as unknown as Block[])}`],
  "call.issued": ({ callId, tool, vendorKey, attempt }) => [
    "issued",
    `${callId} ${tool} ${vendorKey}${attempt > 1 ? `, attempt ${attempt}` : ""}`,
  ],
  "call.completed": ({ callId, by, person, why, result }) => [
    "completed",
    `${callId}${settled(by, person, why)} ${resultText(result)}`,
  ],
  "call.failed": ({ callId, by, person, error }) => [
    "failed",
    `${callId}${by === "presumed" ? ", as far as its error tells" : settled(by, person, undefined)}: ${error.message}`,
  ],
  "call.lost": ({ callId, why }) => ["unknown", `${callId}: ${why}`],
  "call.verified": ({ callId, answer, detail }) => [
    "verified",
    `${callId} ${answer}${detail ? `: ${detail}` : ""}`,
  ],
  "call.waiting": ({ callId, why }) => ["waits", `${callId} for a person: ${why}`],
  "call.granted": ({ callId, person, why }) => ["granted", `${callId} one more attempt by ${person}: ${why}`],
  "call.repeated": ({ callId, tool, of }) => [
    "repeats",
    `${callId} ${tool}: not run again, same as ${of.callId}`,
  ],
};

export function logLine(seq: number, event: Event): LogLine {
  const tellers: Readonly<Record<string, (data: never) => Told>> = TELLERS;
  const teller = Object.hasOwn(tellers, event.type) ? tellers[event.type] : undefined;
  const [word, text] = teller?.(event.data as never) ?? [event.type, JSON.stringify(event.data)];
  return { seq, at: new Date(event.at).toISOString(), type: event.type, word, text: short(text) };
}

/** What a message says, on one line. */
export function blocksText(blocks: readonly Block[]): string {
  return short(
    blocks
      .map((block) => {
        if (block.kind === "text") return block.text;
        if (block.kind === "reasoning") return "(thinks)";
        if (block.kind === "tool_call") return `→ ${block.name} ${JSON.stringify(block.args)}`;
        if (block.kind === "file") return `[${block.mediaType}]`;
        return `← ${typeof block.content === "string" ? block.content : blocksText(block.content)}`;
      })
      .join(" "),
  );
}

function settled(by: string, person: string | undefined, why: string | undefined): string {
  return `${by === "execute" ? "" : ` by ${person ?? by}`}${why ? ` (${why})` : ""}`;
}

function resultText(result: { value?: unknown; artifact?: string; bytes?: number }): string {
  if (result.artifact !== undefined) return `[${result.bytes} bytes]`;
  return typeof result.value === "string" ? result.value : JSON.stringify(result.value);
}

function amountsText(amounts: { readonly [unit: string]: number | null | undefined }): string {
  return Object.entries(amounts)
    .map(([unit, value]) =>
      unit === "usd" && typeof value === "number"
        ? `$${value}`
        : `${value ?? "no limit of"} ${value === 1 ? unit.replace(/s$/, "") : unit}`,
    )
    .join(", ");
}

function short(text: string): string {
  // Of megabytes only the beginning is looked at.
  const line = text
    .slice(0, 10 * TEXT_LIMIT)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > TEXT_LIMIT ? `${line.slice(0, TEXT_LIMIT - 1)}…` : line;
}
