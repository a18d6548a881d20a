import { type Tool, type ToolSpec, validate } from "../ledger/index.ts";
import { type CallError, canonicalJson, copyArgs, type Json, sha256 } from "../model/index.ts";
import type { OwnedSession } from "./owned-session.ts";

export interface DirectCall<Result> {
  readonly tool: ToolSpec<never, Result>;
  readonly args: unknown;
  /** The same id is the same call, also after a crash. Without one it follows from tool and arguments. */
  readonly id?: string;
  readonly signal?: AbortSignal;
}

export type DirectOutcome<Result> =
  | {
      readonly status: "completed";
      readonly value: Result;
      readonly replayed: boolean;
      readonly callId: string;
    }
  | { readonly status: "failed"; readonly error: CallError; readonly callId: string }
  /** Its outcome is unknown: a person, or a later run, settles it. */
  | { readonly status: "waiting"; readonly why: string; readonly callId: string };

/** The call gets a message of its own, so that it has a durable slot like any other. */
export async function runDirectCall<Result>(
  session: OwnedSession,
  direct: DirectCall<Result>,
): Promise<DirectOutcome<Result>> {
  const { name } = direct.tool;
  const args = copyArgs(direct.args, `args of ${name}`);
  const id = direct.id ?? derivedId(session, name, args);
  if (direct.tool.effect === "read") return runRead(session, direct, id, args);
  const replayed = session.internals.own.state.calls.get(id)?.status === "completed";
  const message = await session.append({
    id: `${id}.call`,
    role: "assistant",
    blocks: [{ kind: "tool_call", id, name, args }],
  });
  const options = direct.signal ? { signal: direct.signal } : {};
  await session.ledger([direct.tool as Tool], options).run(message, () => []);
  const call = session.internals.own.state.calls.get(id);
  if (call?.error) return { status: "failed", error: call.error, callId: id };
  if (call?.result) {
    const value = (await resultValue(session, call.result)) as Result;
    return { status: "completed", value, replayed: replayed || call.repeats !== null, callId: id };
  }
  return { status: "waiting", why: call?.why ?? "its outcome is not known yet", callId: id };
}

/** Tool and arguments name the call; after a definite failure the next one is another call. */
function derivedId(session: OwnedSession, name: string, args: Json): string {
  const base = `call_${sha256(canonicalJson([name, args])).slice(0, 24)}`;
  const { calls } = session.internals.own.state;
  let id = base;
  for (let tries = 2; calls.get(id)?.status === "failed"; tries++) id = `${base}.${tries}`;
  return id;
}

/** A read has no effect to protect: it simply runs, and leaves no trace. */
async function runRead<Result>(
  session: OwnedSession,
  direct: DirectCall<Result>,
  callId: string,
  args: Json,
): Promise<DirectOutcome<Result>> {
  const input = await validate(direct.tool.input, args);
  if ("problem" in input) {
    return {
      status: "failed",
      error: { message: `Invalid input for ${direct.tool.name}: ${input.problem}` },
      callId,
    };
  }
  const signal = direct.signal ? AbortSignal.any([session.lost, direct.signal]) : session.lost;
  const { token } = session.internals.own.lease;
  const child = () => Promise.reject(new Error("a read has no sub-agent"));
  const context = { key: callId, callId, session: session.id, token, attempt: 1, signal, child };
  return {
    status: "completed",
    value: await direct.tool.execute(input.value, context),
    replayed: false,
    callId,
  };
}

async function resultValue(
  session: OwnedSession,
  result: { value: Json } | { artifact: string; bytes: number },
): Promise<Json> {
  if ("value" in result) return result.value;
  const bytes = await session.internals.journal.getArtifact(result.artifact);
  return JSON.parse(new TextDecoder().decode(bytes)) as Json;
}
