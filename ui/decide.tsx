/** Dialogs for what is undecided and is no call: an act that a pull brought, a budget that is used up. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { act, Failure } from "./api.ts";
import { Command, Dialog, Field, say, Value } from "./parts.tsx";
import { moment, plural, shellWord, usd } from "./text.ts";

type Unit = "usd" | "tokens" | "turns";
type PulledAct = ResultOf<"review">["waiting"][number];

/** The error as one sentence, with what to do about it. */
export function problemOf(error: unknown): string {
  return error instanceof Failure ? `${error.message}. ${error.hint}` : String(error);
}

export interface Decision {
  readonly label: string;
  readonly key: string;
  readonly means: string;
}

export const CONFIRM: Decision = {
  label: "Confirm",
  key: "c",
  means: "It is theirs. From now on it counts in this clone.",
};
export const REJECT: Decision = {
  label: "Reject",
  key: "r",
  means: "It is not theirs. It is taken back in every clone.",
};
export const RAISE: Decision = {
  label: "Raise the limit",
  key: "b",
  means: "The session may continue up to the new limit.",
};

export const RESOLVE: Decision = {
  label: "Resolve",
  key: "r",
  means: "It blocks nothing any more.",
};
export const RELEASE: Decision = {
  label: "Release",
  key: "r",
  means: "The task is open again, for any agent.",
};
export const RETRY: Decision = {
  label: "Retry",
  key: "r",
  means: "A supervisor takes it up again.",
};

/** An act that takes one text of the person: a reason, or how something was resolved. */
export interface PlainAct {
  readonly title: string;
  readonly means?: string | undefined;
  readonly label: string;
  readonly verb: string;
  readonly line: (typed: string) => string;
  readonly run: (typed: string) => Promise<unknown>;
  readonly done: string;
  /** It cannot be undone. */
  readonly isFinal?: boolean;
}

export function PlainDialog(props: PlainAct & Closing) {
  const { title, means, label, verb, line, run, done, isFinal = false, onClose } = props;
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await run(typed);
      say(done);
      onClose();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        {means === undefined ? null : <p class="sub">{means}</p>}
        <label class="block">
          {label}
          <input value={typed} required autofocus onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        <Refused problem={problem} />
        <Command line={line(shellWord(typed || "…"))} />
        <footer class="acts">
          <button type="submit" class={isFinal ? "main danger" : "main"}>
            {verb}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface Closing {
  readonly onClose: () => void;
}

export function resolving(goal: string, blocker: string): PlainAct {
  return {
    title: `Resolve ${blocker}`,
    label: "How it was resolved",
    verb: "Resolve",
    line: (how) =>
      `holdfast block resolve ${shellWord(blocker)} --resolution ${how} --goal ${shellWord(goal)}`,
    run: (resolution) => act("block resolve", { goal, blocker, resolution }),
    done: `${blocker} is resolved`,
  };
}

export function releasing(goal: string, task: string): PlainAct {
  return {
    title: `Release ${task}`,
    means: "The task is open again. The agent that claimed it cannot submit it any more.",
    label: "Reason",
    verb: "Release",
    line: (why) => `holdfast task release ${shellWord(task)} --force --why ${why} --goal ${shellWord(goal)}`,
    run: (why) => act("task release", { goal, task, why, force: true }),
    done: `${task} is open again`,
  };
}

export function retrying(session: string): PlainAct {
  return {
    title: "Retry the session",
    means: "A supervisor takes it up again, also if it had given up on it (holdfast supervise).",
    label: "Reason",
    verb: "Retry the session",
    line: (why) => `holdfast session retry ${shellWord(session)} --why ${why}`,
    run: (why) => act("session retry", { session, why }),
    done: `${session} will be taken up again`,
  };
}

/** The start of a uid, as the command line prints it. */
const shortUid = (uid: string): string => uid.slice(0, 12);

/** An act in the name of a person that a pull brought. Anyone who can push can write any name. */
export function ReviewDialog(props: {
  readonly goal: string;
  readonly uid: string;
  readonly decision: Decision;
  readonly onClose: () => void;
}): JSX.Element {
  const { goal, uid, onClose } = props;
  const [decision, setDecision] = useState(props.decision);
  const [why, setWhy] = useState("");
  const [shown, setShown] = useState<PulledAct | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const isConfirm = decision === CONFIRM;
  useEffect(() => {
    act("review", { goal }).then(
      ({ waiting }) => {
        const found = waiting.find((each) => each.uid === uid);
        if (found) setShown(found);
        else setProblem("It was confirmed or rejected meanwhile.");
      },
      (error: unknown) => setProblem(problemOf(error)),
    );
  }, [goal, uid]);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      if (isConfirm) await act("review", { goal, accept: [uid] });
      else await act("retract", { goal, event: uid, why });
      say(isConfirm ? "confirmed: it counts here now" : "rejected: it is taken back");
      onClose();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const line = isConfirm
    ? `holdfast review --accept ${shortUid(uid)} --goal ${shellWord(goal)}`
    : `holdfast retract ${shortUid(uid)} --why ${shellWord(why || "…")} --goal ${shellWord(goal)}`;
  return (
    <Dialog title="Did they do this?" onClose={onClose} wide>
      <form onSubmit={(event) => void run(event)}>
        {shown === null ? null : (
          <dl class="facts">
            <Field name="act">
              <Value value={shown.what} />
            </Field>
            <Field name="by">{`${shown.by} (${shown.role}), as the file says`}</Field>
            <Field name="when">{moment(shown.at)}</Field>
            <Field name="origin">{shown.origin ?? "this clone"}</Field>
            <Field name="event">
              <code>{uid}</code>
            </Field>
          </dl>
        )}
        <fieldset class="choices">
          <legend>Ask the person who is named, then choose</legend>
          {[CONFIRM, REJECT].map((each) => (
            <label key={each.label} class={each === decision ? "choice chosen" : "choice"}>
              <input
                type="radio"
                name="decision"
                checked={each === decision}
                autofocus={each === CONFIRM && props.decision === CONFIRM}
                onChange={() => setDecision(each)}
              />
              <span>
                <strong>{each.label}</strong> {each.means}
              </span>
            </label>
          ))}
        </fieldset>
        {isConfirm ? null : (
          <label class="block">
            Reason
            <input
              value={why}
              required
              autofocus={props.decision === REJECT}
              onInput={(event) => setWhy(event.currentTarget.value)}
            />
          </label>
        )}
        <Refused problem={problem} />
        <Command line={line} />
        <footer class="acts">
          <button type="submit" class="main" disabled={shown === null}>
            {isConfirm ? "Confirm this act" : "Reject this act"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

export interface Limit {
  readonly unit: string;
  readonly spent: number;
  readonly limit: number;
}

/** The limits of a session, one row for each unit that has one. */
export function limitsOf({ spent, limit }: ResultOf<"session show">["budget"]): Limit[] {
  return Object.entries(limit).flatMap(([unit, most]) =>
    most === undefined ? [] : [{ unit, spent: spent[unit as Unit] ?? 0, limit: most }],
  );
}

const amount = (unit: string, value: number): string =>
  unit === "usd" ? usd(value) : plural(value, unit.replace(/s$/, ""));

export function BudgetDialog({
  session,
  limits,
  onClose,
}: {
  readonly session: string;
  readonly limits: readonly Limit[];
  readonly onClose: () => void;
}): JSX.Element {
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const [why, setWhy] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const given = Object.entries(typed).filter(([, text]) => text.trim() !== "");
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    const raised = limits.filter(({ unit, limit }) => Number(typed[unit] ?? "") > limit);
    if (raised.length === 0 || raised.length < given.length) {
      setProblem("A limit is only raised: give an amount above the present one.");
      return;
    }
    const amounts = Object.fromEntries(given.map(([unit, text]) => [unit, Number(text)]));
    try {
      await act("session budget", { session, ...amounts, why });
      say(`the budget of ${session} is raised`);
      onClose();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const flags = given.map(([unit, text]) => ` --${unit} ${shellWord(text.trim())}`).join("");
  const shown = flags === "" ? ` --${limits[0]?.unit ?? "usd"} …` : flags;
  return (
    <Dialog title="Raise the budget" onClose={onClose}>
      <form onSubmit={(event) => void run(event)}>
        {limits.map(({ unit, spent, limit }, index) => (
          <label key={unit} class="block">
            {`New limit in ${unit === "usd" ? "dollars" : unit}: ${amount(unit, spent)} of ${amount(unit, limit)} is spent`}
            <input
              inputMode="decimal"
              value={typed[unit] ?? ""}
              placeholder={String(limit * 2)}
              autofocus={index === 0}
              onInput={(event) => setTyped({ ...typed, [unit]: event.currentTarget.value })}
            />
          </label>
        ))}
        <label class="block">
          Reason
          <input value={why} required onInput={(event) => setWhy(event.currentTarget.value)} />
        </label>
        <Refused problem={problem} />
        <Command
          line={`holdfast session budget ${shellWord(session)}${shown} --why ${shellWord(why || "…")}`}
        />
        <footer class="acts">
          <button type="submit" class="main">
            Raise the limit
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

export function Refused({ problem }: { readonly problem: string | null }): JSX.Element | null {
  return problem === null ? null : (
    <p class="problem" role="alert">
      {problem}
    </p>
  );
}
