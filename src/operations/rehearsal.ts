/**
 * `holdfast check --against <program>`: which live sessions a new release of an agent could not continue.
 *
 *     live session ──raw rows──▶ a copy in memory, drained ──▶ the program runs on the copy
 *                                  recorded question, same prompt ──▶ its recorded answer
 *                                  recorded question, another prompt ──▶ diverges
 *                                  recorded call ──▶ its recorded outcome
 *                                  anything new: a question, a call, a verify ──▶ refused, the rehearsal ends
 *
 * The copy has the wrappers' own comparison, so the verdict is that of the next real start. The store is
 * opened for reading only. No tool runs and no model is asked, as long as both are durable. Open calls are
 * then offered to the program's tools: a tool may be gone, or may refuse the recorded arguments.
 */

import { resolve } from "node:path";
import * as z from "zod";
import { importDefault } from "../config/index.ts";
import { describeError, HoldfastError } from "../model/errors.ts";
import { streamName } from "../model/names.ts";
import { openCallsOf, type SessionState, sessionKind, toolCalls } from "../model/session/index.ts";
import { type Holdfast, open } from "../open.ts";
import { openStore } from "../open-store.ts";
import { drivenBy, type Rehearsal, type Session, sessionCore } from "../session/index.ts";
import type { Batch, GetRequest, Store } from "../store.ts";
import type { Context } from "./context.ts";
import { openOptionsOf, requireStore } from "./store-place.ts";

const text = z.string();

const PROBLEMS = ["diverges", "tool gone", "tool changed", "failed"] as const;

export const rehearsedSession = z.strictObject({
  session: text,
  /** `skipped`: the program did not continue this session. */
  verdict: z.enum(["ok", ...PROBLEMS, "skipped"]),
  problems: z.array(z.strictObject({ kind: z.enum(PROBLEMS), what: text })),
});

type Rehearsed = z.input<typeof rehearsedSession>;
type Program = (session: Session) => unknown;

/** Runs the program that `file` exports on a copy of each live session. */
export async function rehearseSessions({ place, cwd }: Context, file: string): Promise<Rehearsed[]> {
  requireStore(place);
  const program = await importProgram(resolve(cwd, file));
  const store = await openStore(place.address, { readOnly: true });
  const options = openOptionsOf(place);
  const holdfast = await open(undefined, { ...options, store, readOnly: true });
  try {
    const rehearsed: Rehearsed[] = [];
    for await (const id of liveSessions(holdfast)) {
      const memory = await openStore("memory:");
      const copy = await open(undefined, { ...options, store: withArtifactsOf(store, memory) });
      try {
        for (const kind of COPIED)
          await copyStream(store, memory, options.namespace, streamName(kind, id), new Set());
        rehearsed.push(await rehearse(copy, id, program));
      } finally {
        await copy.close();
      }
    }
    return rehearsed;
  } finally {
    await holdfast.close();
  }
}

const EXPORT = "Write: export default async (session) => { const d = durable(session); … };";

async function importProgram(file: string): Promise<Program> {
  const program = await importDefault(file, EXPORT);
  if (typeof program === "function") return program as Program;
  throw new HoldfastError("INPUT_INVALID", `${file}: the default export is no function of a session`, {
    hint: EXPORT,
    data: { file },
  });
}

// ---- Sessions and their copies

/** Sessions in the middle of a run. A sub-agent is left out: the call that it works for runs it again. */
async function* liveSessions(holdfast: Holdfast): AsyncGenerator<string> {
  for (let from: { cursor?: string } | null = {}; from !== null; ) {
    const page: Awaited<ReturnType<Holdfast["sessions"]["list"]>> = await holdfast.sessions.list({
      status: "active",
      limit: 200,
      ...from,
    });
    for (const { id } of page.sessions) {
      const { state } = await holdfast.journal.load(sessionKind, id);
      if (isLive(state)) yield id;
    }
    from = page.cursor === null ? null : { cursor: page.cursor };
  }
}

function isLive(state: SessionState): boolean {
  if (state.parent !== null || drivenBy(state) !== null) return false;
  if (state.openCalls.size > 0 || state.unfinished.size > 0) return true;
  const last = state.messages.at(-1);
  return last !== undefined && (last.role !== "assistant" || toolCalls(last).length > 0);
}

/** Kinds of streams that make up a session: its own, and the conversation of the OpenAI Agents SDK. */
const COPIED = ["session", "openai-agents"];

/** Copies the rows as they are, encrypted or not. A fork's history comes first. */
async function copyStream(
  from: Store,
  to: Store,
  namespace: string,
  stream: string,
  copied: Set<string>,
): Promise<void> {
  if (copied.has(stream)) return;
  copied.add(stream);
  for (let after = 0, more = true; more; ) {
    const page = await from.read({ namespace, stream, after, limit: 500 });
    const { base, parent, head, state } = page.stream;
    if (state === "gone") return;
    if (parent && after === 0) await copyStream(from, to, namespace, parent.stream, copied);
    for (const { first, last, batch: id, payload, codec, sum, at } of page.writes) {
      const expect = { generation: head.generation, seq: first - 1 };
      const fork = parent && first === base + 1 ? { fork: { ...parent, seq: base } } : {};
      const write = { stream, expect, count: last - first + 1, payload, codec, sum, at, ...fork };
      await append(to, { id, namespace, writes: [write] });
      after = last;
    }
    more = page.more;
  }
}

async function append(store: Store, batch: Batch): Promise<void> {
  const { outcome } = await store.append(batch);
  if (outcome !== "ok") throw new Error(`copy of ${batch.writes[0]?.stream}: ${outcome}`);
}

/** The copy's store, which reads artifacts from the original: few of them are needed. */
function withArtifactsOf(original: Store, copy: Store): Store {
  const get = async (request: GetRequest) => (await copy.get(request)) ?? original.get(request);
  return new Proxy(copy, {
    get: (target, name) => {
      if (name === "get") return get;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

// ---- One rehearsal

async function rehearse(copy: Holdfast, id: string, program: Program): Promise<Rehearsed> {
  const session = await copy.session(id, { stale: "use" });
  const rehearsal = sessionCore(session).rehearse();
  const error = await runToItsEnd(program, session);
  rehearsal.note(error);
  const problems = [...promptProblems(rehearsal, error), ...(await toolProblems(session, rehearsal))];
  const isSkipped = !rehearsal.hasReplayed && !rehearsal.hasEnded && problems.length === 0;
  return { session: id, verdict: problems[0]?.kind ?? (isSkipped ? "skipped" : "ok"), problems };
}

/** Returns the program's error, or null. A stream that the program returns is read, so that it asks. */
async function runToItsEnd(program: Program, session: Session): Promise<unknown> {
  try {
    const result: unknown = await program(session);
    const { consumeStream } = Object(result) as { consumeStream?: unknown };
    if (typeof consumeStream === "function") await consumeStream.call(result);
    if (result instanceof Response) await result.text();
    return null;
  } catch (error) {
    return error ?? new Error("the program failed without an error");
  }
}

function promptProblems({ diverged, hasEnded }: Rehearsal, error: unknown): Rehearsed["problems"] {
  if (diverged) return [{ kind: "diverges", what: diverged.message }];
  return error === null || hasEnded ? [] : [{ kind: "failed", what: describeError(error).message }];
}

/** A program that did not touch the session has told nothing about its tools. */
async function toolProblems(session: Session, rehearsal: Rehearsal): Promise<Rehearsed["problems"]> {
  const problems: Rehearsed["problems"] = [];
  if (!rehearsal.hasReplayed && !rehearsal.hasEnded && rehearsal.tools.size === 0) return problems;
  for (const call of openCallsOf(sessionCore(session).state)) {
    const resume = rehearsal.tools.get(call.tool);
    const what = `call ${call.callId} of ${call.tool} is open`;
    if (!resume) problems.push({ kind: "tool gone", what: `${what}, and the program has no such tool` });
    else if (!(await resume(call)))
      problems.push({ kind: "tool changed", what: `${what}, and the tool refuses its arguments` });
  }
  return problems;
}
