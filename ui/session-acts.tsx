/** What a person does with a session: fork, cancel, retry, raise its budget, switch its effects. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { act, canAct } from "./api.ts";
import {
  BudgetDialog,
  limitsOf,
  type PlainAct,
  PlainDialog,
  problemOf,
  Refused,
  retrying,
} from "./decide.tsx";
import { Command, Dialog, say } from "./parts.tsx";
import { go, link, route } from "./router.ts";
import { shellWord } from "./text.ts";

type Shown = ResultOf<"session show">;
export type Act = "fork" | "cancel" | "retry" | "effects" | "budget";

/** The buttons of a session. */
export function Acts({ data, open }: { data: Shown; open: (act: Act) => void }): JSX.Element {
  return (
    <div class="acts">
      <button type="button" disabled={!canAct.value} onClick={() => open("fork")}>
        Fork…
      </button>
      {data.status === "active" ? (
        <>
          <button type="button" disabled={!canAct.value} onClick={() => open("cancel")}>
            Cancel…
          </button>
          <button type="button" disabled={!canAct.value} onClick={() => open("retry")}>
            Retry…
          </button>
          {limitsOf(data.budget).length === 0 ? null : (
            <button type="button" disabled={!canAct.value} onClick={() => open("budget")}>
              Budget…
            </button>
          )}
        </>
      ) : null}
      {data.forkedFrom === null ? null : (
        <button type="button" disabled={!canAct.value} onClick={() => open("effects")}>
          {data.effects === "on" ? "Effects off…" : "Effects on…"}
        </button>
      )}
    </div>
  );
}

interface ActProps {
  readonly what: Act;
  readonly data: Shown;
  readonly onClose: () => void;
}

export function ActDialog({ what, data, onClose }: ActProps): JSX.Element {
  const { session } = data;
  if (what === "fork") return <ForkDialog data={data} onClose={onClose} />;
  if (what === "budget")
    return <BudgetDialog session={session} limits={limitsOf(data.budget)} onClose={onClose} />;
  const plain = { cancel: cancelling, retry: retrying, effects: switching(data) }[what](session);
  return <PlainDialog {...plain} onClose={onClose} />;
}

function cancelling(session: string): PlainAct {
  return {
    title: "Cancel the session",
    means: "It starts no further call and cannot be continued. Its log stays.",
    label: "Reason",
    verb: "Cancel the session",
    line: (why) => `holdfast session cancel ${shellWord(session)} --why ${why}`,
    run: (why) => act("session cancel", { session, why }),
    done: `${session} is cancelled`,
    isFinal: true,
  };
}

function switching(data: Shown): (session: string) => PlainAct {
  const effects = data.effects === "on" ? "off" : "on";
  return (session) => ({
    title: `Switch the fork's effects ${effects}`,
    means:
      effects === "on"
        ? "Its tools run for real from now on, also those that its parent has called since the fork."
        : "Its tools that change the world are refused from now on.",
    label: "Reason",
    verb: `Effects ${effects}`,
    line: (why) => `holdfast session effects ${shellWord(session)} ${effects} --why ${why}`,
    run: (why) => act("session effects", { session, effects, why }),
    done: `the effects of ${session} are ${effects}`,
  });
}

function ForkDialog({ data, onClose }: Omit<ActProps, "what">): JSX.Element {
  const version = Number(route.value.query["version"] ?? data.version);
  const { session } = data;
  const [name, setName] = useState(`${session}-fork-${version}`);
  const [problem, setProblem] = useState<string | null>(null);
  const [warned, setWarned] = useState<ResultOf<"session fork">["laterEffects"] | null>(null);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const { laterEffects } = await act("session fork", { session, id: name, version });
      say(`${name} was forked from version ${version}; its effects are off`);
      if (laterEffects.length > 0) {
        setWarned(laterEffects);
        return;
      }
      go(link("session", name));
      onClose();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  if (warned !== null) {
    return (
      <Dialog title="Forked" onClose={onClose}>
        <p>
          These effects happened after version {version}. The fork may do them again once its effects are on:
        </p>
        <ul class="reviewed">
          {warned.map((each) => (
            <li key={JSON.stringify(each)}>{`${each.tool}: ${each.status}`}</li>
          ))}
        </ul>
        <footer class="acts">
          <a class="button main" href={link("session", name)} onClick={onClose}>
            Open {name}
          </a>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={`Fork at version ${version}`} onClose={onClose}>
      <form onSubmit={(event) => void run(event)}>
        <p class="sub">
          The fork shares the past up to version {version}. Its effects are off until you switch them on.
        </p>
        <label class="block">
          Name of the new session
          <input value={name} required autofocus onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <Refused problem={problem} />
        <Command line={`holdfast session fork ${shellWord(session)} ${shellWord(name)} --at ${version}`} />
        <footer class="acts">
          <button type="submit" class="main">
            Fork at version {version}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
