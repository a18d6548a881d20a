/** What a person does with a session: fork, cancel, retry, raise its budget, switch its effects. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { act, canAct, Failure } from "./api.ts";
import { BudgetDialog, limitsOf } from "./decide.tsx";
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
              Raise the budget…
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

const ACT_TITLES = {
  fork: "Fork",
  cancel: "Cancel the session",
  retry: "Retry the session",
  effects: "Change its effects",
} as const;

interface ActProps {
  readonly what: Act;
  readonly data: Shown;
  readonly onClose: () => void;
}

export function ActDialog({ what, data, onClose }: ActProps): JSX.Element {
  if (what !== "budget") return <PlainActDialog what={what} data={data} onClose={onClose} />;
  return <BudgetDialog session={data.session} limits={limitsOf(data.budget)} onClose={onClose} />;
}

function PlainActDialog({ what, data, onClose }: ActProps & { what: keyof typeof ACT_TITLES }): JSX.Element {
  const version = Number(route.value.query["version"] ?? data.version);
  const [name, setName] = useState(`${data.session}-fork-${version}`);
  const [why, setWhy] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [warned, setWarned] = useState<ResultOf<"session fork">["laterEffects"] | null>(null);
  const effects = data.effects === "on" ? "off" : "on";
  const { session } = data;
  const lines = {
    fork: `holdfast session fork ${shellWord(session)} ${shellWord(name)} --at ${version}`,
    cancel: `holdfast session cancel ${shellWord(session)} --why ${shellWord(why || "…")}`,
    retry: `holdfast session retry ${shellWord(session)} --why ${shellWord(why || "…")}`,
    effects: `holdfast session effects ${shellWord(session)} ${effects} --why ${shellWord(why || "…")}`,
  };
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      if (what === "fork") {
        const { laterEffects } = await act("session fork", { session, id: name, version });
        say(`${name} was forked from version ${version}; its effects are off`);
        if (laterEffects.length > 0) {
          setWarned(laterEffects);
          return;
        }
        go(link("session", name));
      } else if (what === "effects") await act("session effects", { session, effects, why });
      else await act(`session ${what}`, { session, why });
      onClose();
    } catch (error) {
      setProblem(error instanceof Failure ? `${error.message}. ${error.hint}` : String(error));
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
    <Dialog title={ACT_TITLES[what]} onClose={onClose}>
      <form onSubmit={(event) => void run(event)}>
        {what === "fork" ? (
          <>
            <p>
              The fork shares the past up to version {version}. Its effects are off until you switch them on.
            </p>
            <label class="block">
              Name of the new session
              <input value={name} required onInput={(event) => setName(event.currentTarget.value)} />
            </label>
          </>
        ) : (
          <label class="block">
            Reason
            <input value={why} required onInput={(event) => setWhy(event.currentTarget.value)} />
          </label>
        )}
        {problem === null ? null : (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <Command line={lines[what]} />
        <footer class="acts">
          <button type="submit" class="main">
            {what === "fork" ? `Fork at version ${version}` : ACT_TITLES[what]}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
