/** The start page: everything undecided, and the answers for it. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AnswerDialog, type Asked, choicesFor, Facts, isOneKind, type Undecided } from "./answer.tsx";
import { canAct, me, useAnswer } from "./api.ts";
import {
  BudgetDialog,
  CONFIRM,
  type Decision,
  type PlainAct,
  PlainDialog,
  RAISE,
  REJECT,
  RELEASE,
  RESOLVE,
  RETRY,
  ReviewDialog,
  releasing,
  resolving,
  retrying,
} from "./decide.tsx";
import { Age, Command, Empty, Mark, Pill, Problem, useKeys } from "./parts.tsx";
import { link, route, setQuery } from "./router.ts";
import { Rows } from "./rows.tsx";
import { json, plural } from "./text.ts";

const LABELS: Readonly<Record<Undecided["kind"], readonly [label: string, tone: string]>> = {
  approval: ["approval", "warn"],
  call: ["unknown", "bad"],
  crash: ["crash", "bad"],
  budget: ["budget", "warn"],
  session: ["session", "warn"],
  blocker: ["blocker", "bad"],
  claim: ["claim", "warn"],
  task: ["task", ""],
  edit: ["edit", "warn"],
  review: ["pulled", "warn"],
};

/** The decisions about a thing that is no call. */
function decisionsFor(item: Undecided): readonly Decision[] {
  if (item.event !== null) return [CONFIRM, REJECT];
  if (item.budget !== null) return [RAISE];
  const plain = { blocker: RESOLVE, claim: RELEASE, session: RETRY }[item.kind as string];
  return plain && plainActFor(item) ? [plain] : [];
}

function plainActFor({ kind, id, goal, session }: Undecided): PlainAct | null {
  // An id names what it is about: `blocker checkout B-001`.
  const named = id.split(" ").at(-1) ?? "";
  if (kind === "blocker" && goal !== null) return resolving(goal, named);
  if (kind === "claim" && goal !== null) return releasing(goal, named);
  return kind === "session" && session !== null ? retrying(session) : null;
}

function isAsked(item: Undecided): item is Asked {
  return item.call !== null && item.session !== null;
}

export function Inbox(): JSX.Element {
  const { data, error } = useAnswer("inbox");
  const [at, setAt] = useState(0);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [answering, setAnswering] = useState<{ items: readonly Asked[]; start: string | null } | null>(null);
  const [deciding, setDeciding] = useState<{ item: Undecided; decision: Decision } | null>(null);
  const { kind = "" } = route.value.query;
  const all = data?.items ?? [];
  const items = kind === "" ? all : all.filter((item) => item.kind === kind);
  const current = items[Math.min(at, items.length - 1)];
  const marked = items.filter(isAsked).filter(({ id }) => chosen.has(id));
  const answer = (start: string | null): void => {
    if (!canAct.value || !current) return;
    const [first] = marked;
    if (first) setAnswering({ items: marked, start });
    else if (isAsked(current)) setAnswering({ items: [current], start });
  };
  const mark = (item: Undecided | undefined): void => {
    if (!item || !isAsked(item)) return;
    const next = new Set([...chosen].filter((id) => items.some((each) => each.id === id)));
    if (!next.delete(item.id)) {
      // Only calls of one tool and one crash can be answered together.
      const [first] = marked;
      if (first && !isOneKind(first, item)) next.clear();
      next.add(item.id);
    }
    setChosen(next);
  };
  const decide = (decision: Decision | undefined): void => {
    if (canAct.value && current && decision) setDeciding({ item: current, decision });
  };
  const byKey = (key: string) => (): void => {
    if (current) decide(decisionsFor(current).find((each) => each.key === key));
    const choice =
      current && isAsked(current) ? choicesFor(current).find((each) => each.key === key) : undefined;
    if (choice) answer(choice.outcome);
  };
  useKeys({
    j: () => setAt(Math.min(items.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    x: () => mark(current),
    Enter: () => (current && !isAsked(current) ? decide(decisionsFor(current)[0]) : answer(null)),
    ...Object.fromEntries(["l", "r", "f", "a", "d", "c", "b"].map((key) => [key, byKey(key)])),
  });
  const counts = new Map<string, number>();
  for (const item of all) counts.set(item.kind, (counts.get(item.kind) ?? 0) + 1);
  return (
    <section class="inbox" aria-label="Inbox">
      <header class="head">
        <h1>Inbox</h1>
        <p class="sub">
          {data === null
            ? "Loading…"
            : all.length === 0
              ? "Nothing is undecided"
              : `${plural(all.length, "thing")} undecided`}
        </p>
        <div class="filters" role="group" aria-label="Kind">
          {[...counts].map(([name, count]) => (
            <button
              type="button"
              key={name}
              aria-pressed={kind === name}
              onClick={() => setQuery({ kind: kind === name ? "" : name })}
            >
              {LABELS[name as Undecided["kind"]][0]} <span class="count">{count}</span>
            </button>
          ))}
        </div>
      </header>
      <Problem error={error} />
      {data === null ? null : items.length === 0 ? (
        <Empty title="Nothing waits for you" line="holdfast demo --ui">
          Calls whose outcome nobody knows, approvals, blockers and crashed sessions appear here. The agents
          that run now need no answer. To see one appear, start the demo on a page of its own:
        </Empty>
      ) : (
        <div class="split">
          <div>
            <Rows
              class="table inbox-rows"
              label="Undecided"
              items={items}
              keyOf={({ id }) => id}
              rowClass={(item) => (item === current ? "row current" : "row")}
              draw={(item, index) => (
                <Row
                  item={item}
                  isCurrent={item === current}
                  isChosen={chosen.has(item.id)}
                  onPick={() => {
                    setAt(index);
                    // On a narrow screen the details are below the list.
                    if (innerWidth <= 860)
                      document.querySelector(".detail")?.scrollIntoView({ block: "start" });
                  }}
                  onMark={() => mark(item)}
                />
              )}
              at={at}
            />
            {data.leftOut > 0 ? (
              <p class="sub pad">{plural(data.leftOut, "more open call")}: answer these first</p>
            ) : null}
          </div>
          {current ? <Detail item={current} marked={marked} answer={answer} decide={decide} /> : null}
        </div>
      )}
      {deciding ? <DecisionDialog {...deciding} onClose={() => setDeciding(null)} /> : null}
      {answering ? (
        <AnswerDialog
          {...answering}
          onClose={() => {
            setAnswering(null);
            setChosen(new Set());
          }}
        />
      ) : null}
    </section>
  );
}

function DecisionDialog({
  item,
  decision,
  onClose,
}: {
  item: Undecided;
  decision: Decision;
  onClose: () => void;
}): JSX.Element | null {
  const { goal, event, session, budget } = item;
  const plain = plainActFor(item);
  if (plain) return <PlainDialog {...plain} onClose={onClose} />;
  if (goal !== null && event !== null)
    return <ReviewDialog goal={goal} uid={event} decision={decision} onClose={onClose} />;
  if (session === null || budget === null) return null;
  return <BudgetDialog session={session} limits={[budget]} onClose={onClose} />;
}

function placeOf({ goal, session }: Undecided): string {
  return [session === null ? "" : `session ${session}`, goal === null ? "" : `goal ${goal}`]
    .filter(Boolean)
    .join(", ");
}

interface RowProps {
  readonly item: Undecided;
  readonly isCurrent: boolean;
  readonly isChosen: boolean;
  readonly onPick: () => void;
  readonly onMark: () => void;
}

function Row({ item, isCurrent, isChosen, onPick, onMark }: RowProps): JSX.Element {
  const [label, tone] = LABELS[item.kind];
  return (
    <>
      {isAsked(item) ? (
        <input
          type="checkbox"
          checked={isChosen}
          onChange={onMark}
          aria-label={`Select ${item.what}`}
          disabled={!canAct.value}
        />
      ) : (
        <span class="no-box" />
      )}
      <button type="button" class="row-main" aria-current={isCurrent} onClick={onPick}>
        <Mark word={label} tone={tone} />
        <strong class="what">{item.call ? item.call.tool : item.what}</strong>
        <Age at={item.since} />
        <span class={item.call ? "row-sub args" : "row-sub"}>
          {item.call ? json(item.call.args) : placeOf(item)}
        </span>
      </button>
    </>
  );
}

function Detail({
  item,
  marked,
  answer,
  decide,
}: {
  item: Undecided;
  marked: readonly Asked[];
  answer: (start: string | null) => void;
  decide: (decision: Decision) => void;
}): JSX.Element {
  const count = marked.length;
  const decisions = decisionsFor(item);
  return (
    <article class="detail" aria-label="Details">
      <header class="detail-head">
        <Pill word={LABELS[item.kind][0]} tone={LABELS[item.kind][1]} />
        <h2>{item.call?.tool ?? item.what}</h2>
        <Age at={item.since} words="for #" />
      </header>
      {item.call?.why ? <p class="lead">{item.call.why}</p> : null}
      {isAsked(item) ? <Facts item={item} /> : null}
      {isAsked(item) ? (
        canAct.value ? (
          <div class="acts">
            {choicesFor(count > 0 && marked[0] ? marked[0] : item).map(({ outcome, label, key, means }) => (
              <button type="button" key={outcome} title={means} onClick={() => answer(outcome)}>
                {label}
                {count > 1 ? ` ${count}` : ""} <kbd>{key}</kbd>
              </button>
            ))}
          </div>
        ) : (
          <p class="sub">Answers are off: {me.value?.readOnly}</p>
        )
      ) : null}
      {item.event === null ? null : (
        <p>
          Anyone who can push can write any name. Until a person confirms it, this act has no effect here.
        </p>
      )}
      {decisions.length === 0 ? null : canAct.value ? (
        <div class="acts">
          {decisions.map((decision) => (
            <button type="button" key={decision.key} title={decision.means} onClick={() => decide(decision)}>
              {decision.label}… <kbd>{decision.key}</kbd>
            </button>
          ))}
        </div>
      ) : (
        <p class="sub">Answers are off: {me.value?.readOnly}</p>
      )}
      <p class="links">
        {item.session === null ? null : (
          <a href={link("session", item.session)}>Open session {item.session}</a>
        )}
        {item.goal === null ? null : <a href={link("goals", item.goal)}>Open goal {item.goal}</a>}
      </p>
      <Command line={item.command} />
    </article>
  );
}
