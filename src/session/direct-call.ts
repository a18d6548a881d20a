import { type Closing, checkTools, readResult, type Tool, validate, withTimeout } from "../ledger/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { canonicalJson, copyArgs, type Json, sameJson } from "../model/json.ts";
import type { Jsonify } from "../model/jsonify.ts";
import { checkOption } from "../model/options.ts";
import type { Call, CallError, CallResult, Effect } from "../model/session/index.ts";
import { checkCallId } from "../model/session/index.ts";
import type { SessionCore } from "./session-core.ts";

/**
 * The options of `session.call`.
 *
 * @example
 * await session.call({ tool: charge, args: { order: "17" }, callId: "charge-17" });
 */
export interface DirectCall<Result, Input = unknown> {
  readonly tool: Tool<Result, Input>;
  /** The input that the tool's schema accepts. A `repeatable` tool also takes `againBecause: "lost"`. */
  readonly args: NoInfer<Input> | (NoInfer<Input> & { readonly againBecause: string });
  /** Identifies the call, also after a crash: 1 to 256 characters. From tool and arguments unless set. */
  readonly callId?: string;
  readonly signal?: AbortSignal;
  /**
   * `"with-next"` saves a commit per call. The result becomes durable in the commit that issues the next
   * call, or before any other act of this handle (`append`, `checkpoint`, `run`, `close` …). Until then the
   * outcome has `recorded: false`. After a crash the call is unknown, and is settled like any interrupted
   * call: give such a tool `verify` or `idempotent`, or a person is asked. Default: `"now"`.
   *
   * @example
   * for (const row of rows) await session.call({ tool: put, args: row, settle: "with-next" });
   * await session.checkpoint("imported"); // from here on every outcome is durable
   */
  readonly settle?: "now" | "with-next";
}

/** The outcome of `session.call`. `replayed` means that the call did not run now: its result was recorded. */
export type DirectOutcome<Result> = { readonly callId: string } & (
  | {
      readonly status: "completed";
      /** The result as the log gives it back, now and after a crash: a Date is text, for example. */
      readonly value: Jsonify<Result>;
      readonly replayed: boolean;
      /** A defect of the result: `the result is not plain JSON: $.at is a Date, kept as text`. */
      readonly note: string | null;
      /** True if the outcome is durable. False for a read, and with `settle: "with-next"`. */
      readonly recorded: boolean;
    }
  | { readonly status: "failed"; readonly error: CallError }
  /** The outcome is unknown: a person or a later run settles it. */
  | { readonly status: "waiting"; readonly why: string }
);

/** `closing`: events that become durable together with the outcome, such as the results of a message. */
export async function runDirectCall<Result>(
  session: SessionCore,
  direct: DirectCall<Result>,
  closing?: Closing,
): Promise<DirectOutcome<Result>> {
  checkTools([direct.tool]);
  checkOption("session.call: settle", direct.settle ?? "now", ["now", "with-next"]);
  const { name } = direct.tool;
  const args = copyArgs(direct.args, `args of ${name}`);
  const { own } = session;
  const given = direct.callId ?? derivedId(session, direct.tool, args);
  // A repeated call gets the recorded result, so that must be on record.
  if (session.kept.find(given)) await session.kept.flush();
  const id = direct.callId ?? derivedId(session, direct.tool, args);
  const known = own.state.calls.get(id);
  // A recorded id is not checked: an earlier release accepted it, and the call must be settled under it.
  if (!known) checkCallId(id);
  if (direct.tool.effect === "read") return runRead(session, direct, id, args);
  mustBeTheSame(id, known, name, args);
  const wasDone = known?.status === "completed";
  const options = direct.signal ? { signal: direct.signal } : {};
  const issued = await session
    .ledger([direct.tool], options)
    .runDirect({ id, name, args }, direct.settle === "with-next", closing);
  session.noteSettled();
  const kept = session.kept.find(id);
  if (kept) {
    const { value, note } = kept;
    return {
      status: "completed",
      value: value as Jsonify<Result>,
      replayed: false,
      note,
      callId: id,
      recorded: false,
    };
  }
  const call = own.state.calls.get(id);
  // Another handle may have recorded a different call under this id meanwhile.
  mustBeTheSame(id, call, name, args);
  if (call?.error) return { status: "failed", error: call.error, callId: id };
  if (call?.result) {
    const replayed = wasDone || !(known || issued) || call.repeats !== null;
    // A process that has taken over may have written something else since.
    if (replayed && direct.tool.effect === "write") await session.mustHold();
    const value = (await resultValue(session, call.result)) as Jsonify<Result>;
    return { status: "completed", value, replayed, note: call.note, callId: id, recorded: true };
  }
  await session.mustHold();
  return { status: "waiting", why: call?.why ?? "its outcome is not known yet", callId: id };
}

function mustBeTheSame(id: string, call: Call | undefined, name: string, args: Json): void {
  if (!call || (call.tool === name && sameJson(call.asked?.args ?? call.args, args))) return;
  throw new HoldfastError("INPUT_INVALID", `call ${id} is on record with another tool or other arguments`, {
    hint: "Choose another id: an id stands for one call for good.",
    data: { callId: id, tool: call.tool },
  });
}

/** Derives the id from tool and arguments. After a failure, or a write that was overwritten, it is new. */
function derivedId(session: SessionCore, tool: { name: string; effect: Effect }, args: Json): string {
  const base = `call_${sha256(canonicalJson([tool.name, args])).slice(0, 24)}`;
  const { calls, latestEffect } = session.state;
  const isDone = (call: Call | undefined): boolean =>
    call?.status === "failed" ||
    (tool.effect === "write" && call?.status === "completed" && call.callId !== latestEffect);
  let id = base;
  for (let tries = 2; isDone(calls.get(id)); tries++) id = `${base}.${tries}`;
  return id;
}

/**
 * Runs a read. It has no effect to protect, so nothing is recorded. Its value is JSON all the same, as its
 * type says.
 */
async function runRead<Result>(
  session: SessionCore,
  direct: DirectCall<Result>,
  callId: string,
  args: Json,
): Promise<DirectOutcome<Result>> {
  const input = await validate(direct.tool.input, args);
  if ("problem" in input) {
    const message = `Invalid input for ${direct.tool.name}: ${input.problem}`;
    return { status: "failed", error: { message }, callId };
  }
  const signal = direct.signal ? AbortSignal.any([session.stop, direct.signal]) : session.stop;
  const { token } = session.own.lease;
  const child = () => Promise.reject(new Error("a read has no sub-agent"));
  const context = { key: callId, callId, session: session.id, token, attempt: 1, signal, child };
  if (session.rehearsal) session.drain.throwIfAborted();
  const answer = Promise.resolve(direct.tool.execute(input.value as never, context));
  // Ends when the session is closed: `close` waits for this call, and the tool itself may be what closes it.
  const result = await withTimeout(answer, Number.POSITIVE_INFINITY, signal, null);
  const { value, note } = await readResult(direct.tool, result);
  return {
    status: "completed",
    value: value as Jsonify<Result>,
    replayed: false,
    note,
    callId,
    recorded: false,
  };
}

async function resultValue(session: SessionCore, result: CallResult): Promise<Json> {
  if ("value" in result) return result.value;
  const bytes = await session.journal.getArtifact(result.artifact);
  return JSON.parse(new TextDecoder().decode(bytes)) as Json;
}
