/**
 * Answers for calls. Nothing is recorded by one keystroke: a person chooses an outcome, gives a reason, sees
 * each call as it will be recorded, and confirms. An answer carries the position of the state that was shown,
 * so that the server refuses it if the call has changed meanwhile.
 */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { act, Failure, me } from "./api.ts";
import { Command, Dialog, Field, say, Value } from "./parts.tsx";
import { json, moment, plural, shellWord } from "./text.ts";

export type Undecided = ResultOf<"inbox">["items"][number];
export type Asked = Undecided & { readonly call: NonNullable<Undecided["call"]>; readonly session: string };

export interface Choice {
  readonly outcome: string;
  readonly label: string;
  readonly key: string;
  readonly means: string;
}

const APPROVALS: readonly Choice[] = [
  { outcome: "approve", label: "Approve", key: "a", means: "The call may run, once." },
  { outcome: "deny", label: "Deny", key: "d", means: "The call does not run. The agent is told why." },
];
const OUTCOMES: readonly Choice[] = [
  { outcome: "landed", label: "Landed", key: "l", means: "It happened. It is never run again." },
  {
    outcome: "retry",
    label: "Retry",
    key: "r",
    means: "It did not happen and cannot happen any more: run it again.",
  },
  {
    outcome: "failed",
    label: "Failed",
    key: "f",
    means: "It did not happen. The agent is told, and decides.",
  },
];

export function choicesFor({ call }: Asked): readonly Choice[] {
  const all = call.unbegun ? APPROVALS : OUTCOMES;
  return all.filter(({ outcome }) => !(call.cancelled && ["retry", "approve"].includes(outcome)));
}

/** Calls that may be answered together: one tool, one reason, one lost process. */
export function isOneKind(one: Asked, other: Asked): boolean {
  const kind = ({ call, goneHolder, kind: of }: Asked): string =>
    JSON.stringify([
      of,
      call.tool,
      call.status,
      call.cancelled,
      goneHolder?.pid ?? null,
      goneHolder?.host ?? null,
    ]);
  return kind(one) === kind(other);
}

interface Given {
  readonly result: string;
  readonly args: string;
  readonly minutes: string;
}

function lineFor({ call, session }: Asked, outcome: string, why: string, typed: Given): string {
  const { result, args, minutes } = typed;
  const given =
    outcome === "landed" && result.trim() !== ""
      ? ` --result ${shellWord(result)}`
      : outcome === "approve"
        ? `${args.trim() === "" ? "" : ` --args ${shellWord(args)}`}${minutes === "" ? "" : ` --expires ${minutes}m`}`
        : "";
  const words = call.unbegun
    ? `${outcome} ${shellWord(call.callId)}`
    : `resolve ${shellWord(call.callId)} ${outcome}`;
  return `holdfast ${words} --session ${shellWord(session)}${given} --by ${shellWord(me.value?.by ?? "")} --why ${shellWord(why || "…")}`;
}

function parsed(text: string): { value?: unknown; problem?: string } {
  if (text.trim() === "") return {};
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { problem: 'This is not JSON. A text needs quotes: "sent"' };
  }
}

interface Props {
  readonly items: readonly Asked[];
  readonly start: string | null;
  readonly onClose: () => void;
}

export function AnswerDialog({ items, start, onClose }: Props): JSX.Element | null {
  const [first] = items;
  const [outcome, setOutcome] = useState(start ?? "");
  const [why, setWhy] = useState("");
  const [typed, setTyped] = useState<Given>({ result: "", args: "", minutes: "" });
  const { result, args, minutes } = typed;
  const [isSure, setSure] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  if (!first) return null;
  const choices = choicesFor(first);
  const choice = choices.find((each) => each.outcome === outcome);
  const value = outcome === "landed" ? parsed(result) : outcome === "approve" ? parsed(args) : {};
  const missing = (): string | null => {
    if (!choice) return "Choose what happened.";
    if (why.trim() === "") return "Give a reason: it is recorded for those who come later.";
    return value.problem ?? null;
  };
  const review = (event: Event): void => {
    event.preventDefault();
    setProblem(missing());
    setSure(missing() === null);
  };
  const record = async (): Promise<void> => {
    setBusy(true);
    try {
      for (const { call, session, seq } of items) {
        const answer = "value" in value ? { result: value.value } : {};
        const allowed = {
          ...("value" in value && { args: value.value }),
          ...(minutes !== "" && { expiresInMs: Number(minutes) * 60_000 }),
        };
        const named = { callId: call.callId, session, why, seq: seq ?? undefined };
        if (outcome === "approve") await act("approve", { ...named, ...allowed });
        else if (outcome === "deny") await act("deny", named);
        else await act("resolve", { ...named, outcome, ...answer });
      }
      say(`${plural(items.length, "answer")} recorded: ${choice?.label.toLowerCase()}`);
      onClose();
    } catch (error) {
      setSure(false);
      setBusy(false);
      setProblem(error instanceof Failure ? `${error.message}. ${error.hint}` : String(error));
    }
  };
  const title =
    items.length === 1
      ? `Answer for ${first.call.tool}`
      : `Answer for ${plural(items.length, "call")} of ${first.call.tool}`;
  return (
    <Dialog title={title} onClose={onClose} wide>
      {isSure && choice ? (
        <div class="review">
          <p>
            This will be recorded under the name <strong>{me.value?.by}</strong>:{" "}
            <strong>{choice.label}</strong>. {choice.means}
          </p>
          <ol class="reviewed">
            {items.map((item) => (
              <li key={item.id}>
                <strong>{item.call.tool}</strong> <code>{json(item.call.args)}</code>
                <div class="sub">
                  session {item.session} · call {item.call.callId} · key {item.call.key}
                </div>
              </li>
            ))}
          </ol>
          <dl>
            <Field name="reason">{why}</Field>
            {"value" in value ? (
              <Field name={outcome === "approve" ? "runs with" : "result"}>
                <Value value={value.value} />
              </Field>
            ) : null}
            {outcome === "approve" && minutes !== "" ? (
              <Field name="expires">{`in ${minutes} min, if it has not started`}</Field>
            ) : null}
          </dl>
          <Command line={items.map((item) => lineFor(item, outcome, why, typed))} />
          <footer class="acts">
            <button type="button" onClick={() => setSure(false)}>
              Back
            </button>
            <button
              type="button"
              class="main"
              disabled={isBusy}
              onClick={() => void record()}
              ref={(button) => button?.focus()}
            >
              {`Record ${choice.label.toLowerCase()}`}
            </button>
          </footer>
        </div>
      ) : (
        <form onSubmit={review}>
          {first.call.why === null ? null : <p class="lead">{first.call.why}</p>}
          <Facts item={first} />
          <fieldset class="choices">
            <legend>{first.call.unbegun ? "May it run?" : "What happened?"}</legend>
            {choices.map((each) => (
              <label key={each.outcome} class={each.outcome === outcome ? "choice chosen" : "choice"}>
                <input
                  type="radio"
                  name="outcome"
                  value={each.outcome}
                  checked={each.outcome === outcome}
                  autofocus={start === null && each === choices[0]}
                  onChange={() => setOutcome(each.outcome)}
                />
                <span>
                  <strong>{each.label}</strong> {each.means}
                </span>
              </label>
            ))}
          </fieldset>
          {outcome === "landed" ? (
            <label class="block">
              What the tool returned, as JSON (optional)
              <textarea
                rows={2}
                value={result}
                onInput={(event) => setTyped({ ...typed, result: event.currentTarget.value })}
                spellcheck={false}
              />
            </label>
          ) : null}
          {outcome === "approve" && items.length === 1 ? (
            <label class="block">
              Other arguments, as JSON (optional)
              <textarea
                rows={2}
                value={args}
                placeholder={json(first.call.args)}
                onInput={(event) => setTyped({ ...typed, args: event.currentTarget.value })}
                spellcheck={false}
              />
            </label>
          ) : null}
          {outcome === "approve" ? (
            <label class="block">
              Minutes until the approval expires, if the call has not started by then (optional)
              <input
                type="number"
                min={1}
                value={minutes}
                onInput={(event) => setTyped({ ...typed, minutes: event.currentTarget.value })}
              />
            </label>
          ) : null}
          <label class="block">
            Reason
            <input
              value={why}
              onInput={(event) => setWhy(event.currentTarget.value)}
              placeholder={first.call.unbegun ? "agreed by phone" : "seen in the bank's list"}
              autofocus={start !== null}
            />
          </label>
          {problem === null ? null : (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
          <Command
            line={items
              .map((item) =>
                lineFor(item, outcome || choices.map((each) => each.outcome).join("|"), why, typed),
              )
              .join("\n")}
          />
          <footer class="acts">
            <button type="submit" class="main">
              Review
            </button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}

export function Facts({ item }: { item: Asked }): JSX.Element {
  const { call, session, heldBy, goneHolder } = item;
  const holder = heldBy ?? goneHolder;
  return (
    <dl class="facts">
      <Field name="arguments">
        <Value value={call.args} />
      </Field>
      <Field name="effect">
        {call.effect}, attempt {call.attempt}
      </Field>
      {call.answers === "approver" ? (
        <Field name="approver">
          An approver has to answer: the answer is signed with the ssh key of whoever started this page (
          <code>holdfast sign --key</code>), and that key has to be an approver's (
          <code>holdfast approver add</code>).
        </Field>
      ) : null}
      <Field name="session">{session}</Field>
      <Field name="key">
        <code>{call.key}</code>
      </Field>
      {call.unbegun ? null : (
        <Field name="verify">
          {call.verify === null
            ? "the tool has none, or it gave no answer"
            : `${call.verify}${call.verifiedAt === null ? "" : `, ${moment(call.verifiedAt)}`}`}
        </Field>
      )}
      {holder === null ? null : (
        <Field
          name={heldBy ? "held by" : "was held by"}
        >{`${holder.label} (pid ${holder.pid} on ${holder.host})${heldBy ? "" : ", which is gone"}`}</Field>
      )}
      {call.subAgentCalls.length === 0 ? null : (
        <Field name="sub-agent">
          {call.subAgentCalls.map((each) => `${each.tool} ${each.callId} of ${each.session}`).join(", ")}
        </Field>
      )}
    </dl>
  );
}
