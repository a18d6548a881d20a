/** Goals: the board, decisions, blockers and what they block, drift, history, the next agent's briefing. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { ask, canAct, useAnswer } from "./api.ts";
import { PlainDialog, resolving } from "./decide.tsx";
import { Age, Command, Empty, Pill, Problem, useRoom } from "./parts.tsx";
import { link, route, setQuery } from "./router.ts";
import { plural, shellWord } from "./text.ts";

type Task = ResultOf<"task list">["tasks"][number];
type Goal = ResultOf<"goal show">;

const COLUMNS = [
  ["open", "To do"],
  ["in_progress", "In progress"],
  ["blocked", "Blocked"],
  ["submitted", "To verify"],
  ["done", "Done"],
] as const;
const TABS = ["board", "decisions", "assumptions", "blockers", "history", "briefing"] as const;

const isGoal = (stream: string): boolean => stream.startsWith("goal/");

export function Goals({ id }: { id: string | null }): JSX.Element {
  const { data, error } = useAnswer("goal list", {}, isGoal);
  const goals = data?.goals ?? [];
  const shown = id ?? goals.find(({ status }) => status !== "done")?.goal ?? goals[0]?.goal ?? null;
  return (
    <section aria-label="Goals">
      <header class="head">
        <h1>Goals</h1>
        {goals.length < 2 ? null : (
          <nav class="filters" aria-label="All goals">
            {goals.map(({ goal, title, status, stale }) => (
              <a
                key={goal}
                class="button"
                href={link("goals", goal)}
                aria-current={goal === shown ? "page" : undefined}
              >
                {title ?? goal}{" "}
                {stale ? <Pill word="stale" /> : status === "done" ? <Pill word="done" /> : null}
              </a>
            ))}
          </nav>
        )}
      </header>
      <Problem error={error} />
      {data !== null && goals.length === 0 ? (
        <Empty title="No goals yet" line={'holdfast goal new checkout "Customers can pay by card"'}>
          A goal is long-lived work in your repository: phases, tasks, decisions and blockers that outlive
          every agent. Create one:
        </Empty>
      ) : null}
      {shown === null ? null : <OneGoal id={shown} />}
    </section>
  );
}

function OneGoal({ id }: { id: string }): JSX.Element {
  const mine = (stream: string): boolean => stream.startsWith(`goal/${id}`);
  const { data, error } = useAnswer("goal show", { goal: id }, mine);
  const tasks = useAnswer("task list", { goal: id, all: true }, mine);
  const { tab = "board" } = route.value.query;
  useEffect(() => {
    // On a phone the tabs are wider than the screen.
    const chosen = document.querySelector(".tabs [aria-selected=true]");
    chosen?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [tab, data === null]);
  if (data === null) return error ? <Problem error={error} /> : <p class="sub pad">Loading…</p>;
  const { progress } = data;
  return (
    <>
      <div class="goal-head">
        <h2>{data.title ?? data.goal}</h2>
        <p>{data.statement}</p>
        <div
          class="meter"
          role="progressbar"
          aria-label="Progress"
          aria-valuenow={Math.round(progress.percent)}
          aria-valuemin={0}
          aria-valuemax={100}
        >
          <span style={{ width: `${progress.percent}%` }} />
        </div>
        <p class="sub facts-line">
          <strong>{`${Math.round(progress.percent)}%`}</strong>
          <span>{`${progress.tasksCompleted} of ${plural(progress.tasks, "task")} done`}</span>
          <span>
            {data.position.phaseName === null
              ? "no phase"
              : `phase ${data.position.phase}: ${data.position.phaseName}`}
          </span>
          {data.stale ? <Pill word="stale" /> : null}
          <span>{data.next.why}</span>
          <Age at={data.updatedAt} words="changed # ago" />
        </p>
        <Pulled goal={id} />
      </div>
      <div class="tabs" role="tablist" aria-label="Views">
        {TABS.map((each) => (
          <button
            type="button"
            role="tab"
            key={each}
            id={`tab-${each}`}
            aria-selected={tab === each}
            aria-controls="view"
            onClick={() => setQuery({ tab: each })}
          >
            {each}
          </button>
        ))}
      </div>
      <div id="view" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "board" ? <Board goal={data} tasks={tasks.data?.tasks ?? []} /> : null}
        {tab === "decisions" ? <Decisions goal={data} /> : null}
        {tab === "assumptions" ? <Assumptions goal={data} /> : null}
        {tab === "blockers" ? <Blockers goal={data} tasks={tasks.data?.tasks ?? []} /> : null}
        {tab === "history" ? <History goal={data} /> : null}
        {tab === "briefing" ? <Briefing goal={data.goal} /> : null}
      </div>
    </>
  );
}

/** Acts in a person's name that a pull brought: they have no effect until somebody confirms them. */
function Pulled({ goal }: { goal: string }): JSX.Element | null {
  const { data } = useAnswer("inbox", {}, isGoal);
  const count = (data?.items ?? []).filter((each) => each.kind === "review" && each.goal === goal).length;
  if (count === 0) return null;
  return (
    <p class="banner">
      {`${plural(count, "act")} that a pull brought ${count === 1 ? "has" : "have"} no effect yet. `}
      <a href={link("inbox", null, { kind: "review" })}>Confirm or reject</a>
    </p>
  );
}

function columnOf({ status }: Task): string {
  if (status === "failed") return "blocked";
  return COLUMNS.some(([name]) => name === status) ? status : "open";
}

function Board({ goal, tasks }: { goal: Goal; tasks: readonly Task[] }): JSX.Element {
  const wanted = tasks.filter(({ status }) => status !== "dropped");
  if (wanted.length === 0) {
    return (
      <Empty
        title="Nothing is planned"
        line={`holdfast task add "what to do" --goal ${shellWord(goal.goal)}`}
      >
        Tasks are what agents claim, build and submit. Add the first:
      </Empty>
    );
  }
  const name = (phase: number): string =>
    goal.phases.find(({ number }) => number === phase)?.name ?? `phase ${phase}`;
  return (
    <>
      <div class="board">
        {COLUMNS.map(([column, label]) => {
          const cards = wanted.filter((task) => columnOf(task) === column);
          return (
            <section key={column} class={cards.length === 0 ? "column none" : "column"} aria-label={label}>
              <h3>
                {label} <span class="count">{cards.length}</span>
              </h3>
              <ul>
                {cards.map((task) => (
                  <li key={task.id} class={`card ${task.status}`}>
                    <span class="card-top">
                      <code>{task.id}</code>
                      <span class="sub">{name(task.phase)}</span>
                    </span>
                    <strong>{task.title}</strong>
                    {task.by === null ? null : <span class="tag">{task.by}</span>}
                    {task.status === "failed" ? <Pill word="failed" /> : null}
                    {(task.blockedBy ?? []).map((blocker) => (
                      <Pill key={blocker} word={blocker} tone="bad" />
                    ))}
                  </li>
                ))}
              </ul>
            </section>
          );
        })}
      </div>
      <Command line={`holdfast task list --all --goal ${shellWord(goal.goal)}`} />
    </>
  );
}

function Assumptions({ goal }: { goal: Goal }): JSX.Element {
  if (goal.assumptions.length === 0) {
    return (
      <Empty title="No assumptions" line={'holdfast assume "the API returns at most 100 rows"'}>
        An assumption is what the work relies on and nobody has checked. Briefings show it until it is
        settled.
      </Empty>
    );
  }
  return (
    <>
      <ul class="notes">
        {goal.assumptions.map(({ id, text, status, evidence }) => (
          <li key={id} class="note">
            <p class="card-top">
              <code>{id}</code> <Pill word={status} />
            </p>
            <strong>{text}</strong>
            {evidence === null ? null : <p class="sub">{evidence}</p>}
          </li>
        ))}
      </ul>
      <Command line={`holdfast assumptions --goal ${shellWord(goal.goal)}`} />
    </>
  );
}

function Decisions({ goal }: { goal: Goal }): JSX.Element {
  if (goal.decisions.length === 0) {
    return (
      <Empty
        title="No decisions yet"
        line={'holdfast decide "use Postgres" --context "the store" --reason "many machines"'}
      >
        A recorded decision is shown to every later agent, with its reason and what was rejected.
      </Empty>
    );
  }
  return (
    <>
      <ul class="notes">
        {goal.decisions.map((each) => (
          <li key={each.id} class="note">
            <p class="card-top">
              <code>{each.id}</code> <span class="tag">{each.type}</span>{" "}
              <span class="sub">{`${each.date}, ${each.by.name}`}</span>
            </p>
            <strong>{each.decision}</strong>
            <p class="sub">{each.context}</p>
            <p>{each.reason}</p>
            {each.alternatives.map(({ option, whyNot }) => (
              <p key={option} class="sub">{`Rejected: ${option}, because ${whyNot}`}</p>
            ))}
          </li>
        ))}
      </ul>
      <Command line={`holdfast decisions --goal ${shellWord(goal.goal)}`} />
    </>
  );
}

const NODE_HEIGHT = 44;
const GRAPH_WIDTH = 760;
const LETTER = 6.8;

/** Blockers on the left, what they block on the right. */
function Blockers({ goal, tasks }: { goal: Goal; tasks: readonly Task[] }): JSX.Element {
  const [chosen, setChosen] = useState<string | null>(null);
  const [box, room] = useRoom(GRAPH_WIDTH);
  const { blockers } = goal;
  if (blockers.length === 0) {
    return (
      <Empty title="Nothing is blocked" line={'holdfast block add "waiting for the API key" --task T-001'}>
        A blocker stops the tasks, phases or the whole goal that it names, until it is resolved or bypassed.
      </Empty>
    );
  }
  const targets = [
    ...new Set(
      blockers.flatMap(({ affects }) => [
        ...affects.tasks,
        ...affects.phases.map((phase) => `phase ${phase}`),
        ...(affects.goal ? ["the whole goal"] : []),
        ...affects.other,
      ]),
    ),
  ];
  const titleOf = (target: string): string => {
    const task = tasks.find(({ id }) => id === target);
    return task ? `${target} ${task.title}` : target;
  };
  const node = Math.min(300, Math.floor(room * 0.42));
  const right = room - node - 1;
  const short = (text: string): string => shortened(text, Math.floor((node - 20) / LETTER));
  const height = Math.max(blockers.length, targets.length) * NODE_HEIGHT + 10;
  const y = (index: number): number => index * NODE_HEIGHT + 24;
  return (
    <>
      <div ref={box} />
      <svg
        class="graph"
        width={room}
        height={height}
        role="img"
        aria-label="What each blocker blocks; the list below says the same"
      >
        {blockers.flatMap(({ id, status, affects }, from) =>
          targets
            .map((target, to) => ({ target, to }))
            .filter(
              ({ target }) =>
                affects.tasks.includes(target) ||
                affects.phases.some((phase) => target === `phase ${phase}`) ||
                (affects.goal && target === "the whole goal") ||
                affects.other.includes(target),
            )
            .map(({ target, to }) => (
              <path
                key={`${id} ${target}`}
                class={`edge ${status}`}
                d={`M${node + 1} ${y(from)} C${room / 2} ${y(from)} ${room / 2} ${y(to)} ${right} ${y(to)}`}
              />
            )),
        )}
        {blockers.map(({ id, description, status }, index) => (
          <g key={id} class={`node blocker ${status}`} transform={`translate(1,${y(index) - 16})`}>
            <rect width={node} height="32" rx="6" />
            <text x="10" y="21">
              {short(`${id} ${description}`)}
            </text>
          </g>
        ))}
        {targets.map((target, index) => (
          <g key={target} class="node" transform={`translate(${right},${y(index) - 16})`}>
            <rect width={node} height="32" rx="6" />
            <text x="10" y="21">
              {short(titleOf(target))}
            </text>
          </g>
        ))}
      </svg>
      <ul class="notes">
        {blockers.map((each) => (
          <li key={each.id} class="note">
            <p class="card-top">
              <code>{each.id}</code>{" "}
              <Pill word={each.status} tone={each.status === "active" ? "bad" : "warn"} />{" "}
              <Age at={each.reportedAt} />
            </p>
            <strong>{each.description}</strong>
            <p class="sub">{`blocks ${[...each.affects.tasks, ...each.affects.phases.map((phase) => `phase ${phase}`), ...(each.affects.goal ? ["the whole goal"] : []), ...each.affects.other].join(", ") || "nothing by name"}`}</p>
            {each.workaround === null ? null : <p>{`worked around: ${each.workaround}`}</p>}
            <button type="button" disabled={!canAct.value} onClick={() => setChosen(each.id)}>
              Resolve…
            </button>
          </li>
        ))}
      </ul>
      <Command line={`holdfast blockers --goal ${shellWord(goal.goal)}`} />
      {chosen === null ? null : (
        <PlainDialog {...resolving(goal.goal, chosen)} onClose={() => setChosen(null)} />
      )}
    </>
  );
}

const shortened = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text;

function History({ goal }: { goal: Goal }): JSX.Element {
  const [files, setFiles] = useState<ResultOf<"check">["files"] | null>(null);
  const [isBusy, setBusy] = useState(false);
  const check = async (): Promise<void> => {
    setBusy(true);
    const found = await ask("check", { goal: goal.goal }).catch(() => null);
    setFiles(found?.files ?? []);
    setBusy(false);
  };
  return (
    <>
      <section class="part">
        <h3>Recorded files</h3>
        <p class="sub">Files whose content this goal has recorded. Are they still as they were?</p>
        {files === null ? (
          <button type="button" disabled={isBusy} onClick={() => void check()}>
            {isBusy ? "comparing…" : "Compare with the disk"}
          </button>
        ) : (
          <ul class="table">
            {files.length === 0 ? <li class="line sub">no files are recorded</li> : null}
            {files.map(({ path, verdict, why }) => (
              <li key={path} class="line">
                <Pill
                  word={verdict === "OK" ? "unchanged" : verdict.toLowerCase()}
                  tone={verdict === "OK" ? "good" : "bad"}
                />
                <code class="grow">{path}</code>
                <span class="sub">{why ?? ""}</span>
              </li>
            ))}
          </ul>
        )}
        <Command line={`holdfast check --goal ${shellWord(goal.goal)}`} />
      </section>
      <section class="part">
        <h3>Latest sessions of this goal</h3>
        {goal.history.length === 0 ? (
          <p class="sub">An agent's stretch of work appears here once it resumes the goal.</p>
        ) : null}
        <ul class="notes">
          {goal.history.map((each) => (
            <li key={each.session} class="note">
              <p class="card-top">
                <strong>{each.agent}</strong> <Pill word={each.status} /> <Age at={each.startedAt} />
              </p>
              {each.workingOn === null ? null : <p class="sub">{`on ${each.workingOn}`}</p>}
              {each.handoffReason === null ? null : <p>{each.handoffReason}</p>}
              {each.notes.map((note) => (
                <p key={note}>{note}</p>
              ))}
              {each.completed.length === 0 ? null : (
                <p class="sub">{`finished ${each.completed.join(", ")}`}</p>
              )}
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

function Briefing({ goal }: { goal: string }): JSX.Element {
  const { data, error } = useAnswer("brief", { goal }, (stream) => stream.startsWith(`goal/${goal}`));
  if (error) return <Problem error={error} />;
  if (data === null) return <p class="sub pad">Loading…</p>;
  return (
    <>
      <p class="sub">{`The text with which the next agent continues: ${plural(data.tokens, "token")}`}</p>
      <pre class="briefing" tabIndex={0}>
        {data.text}
      </pre>
      <Command line={`holdfast brief --goal ${shellWord(goal)}`} />
    </>
  );
}
