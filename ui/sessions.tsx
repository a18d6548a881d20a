/** All sessions: filtered by the address, by pages, live, with bulk cancel and retry after a dry run. */

import type { JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { act, ask, canAct, Failure, onChange } from "./api.ts";
import { Age, Command, Dialog, Empty, Mark, More, Pill, Problem, say, useKeys } from "./parts.tsx";
import { go, link, route, setQuery } from "./router.ts";
import { Rows } from "./rows.tsx";
import { plural, shellWord } from "./text.ts";

type Row = ResultOf<"session list">["sessions"][number];

const PAGE = 100;
const STATUSES = ["running", "crashed", "idle", "completed", "failed", "cancelled"];
const TEXT_FILTERS = [
  ["text", "Id, title or goal"],
  ["goal", "Goal"],
  ["tool", "Tool"],
  ["metadata", "Metadata, as name=value"],
] as const;

export function wordFor({ status, running, crashed }: Row): string {
  if (status !== "active") return status;
  return running ? "running" : crashed ? "crashed" : "idle";
}

interface List {
  readonly rows: readonly Row[];
  /** Of the page that follows; null at the end. */
  readonly cursor: string | null;
}

const NOTHING: List = { rows: [], cursor: null };

/** The list by pages: later pages stay as they are while the first is renewed. */
function useSessions(filter: Readonly<Record<string, string>>) {
  const [list, setList] = useState(NOTHING);
  const [error, setError] = useState<Failure | null>(null);
  const [isBusy, setBusy] = useState(true);
  const key = JSON.stringify(filter);
  const latest = useRef(key);
  latest.current = key;
  const load = useCallback(
    async (from: string | null) => {
      setBusy(true);
      try {
        const found = await ask("session list", { ...filter, limit: PAGE, cursor: from ?? undefined });
        if (latest.current !== key) return;
        setError(null);
        setList((before) => (from === null ? renewed(before, found) : continued(before, found)));
      } catch (problem) {
        if (problem instanceof Failure) setError(problem);
      } finally {
        setBusy(false);
      }
    },
    [key],
  );
  useEffect(() => {
    setList(NOTHING);
    void load(null);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onChange((streams) => {
      if (streams !== null && !streams.some((stream) => stream.startsWith("session/"))) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void load(null);
      }, 300);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [load]);
  const { rows, cursor } = list;
  return { key, rows, cursor, error, isBusy, more: () => void (cursor !== null && load(cursor)) };
}

type Found = ResultOf<"session list">;

function continued({ rows }: List, { sessions, cursor }: Found): List {
  const known = new Set(rows.map(({ session }) => session));
  return { rows: [...rows, ...sessions.filter(({ session }) => !known.has(session))], cursor };
}

/** The list with its first page as it is now. The last changed session comes first. */
function renewed({ rows, cursor: next }: List, { sessions, cursor }: Found): List {
  const last = sessions.at(-1);
  if (cursor === null || last === undefined) return { rows: sessions, cursor };
  const known = new Set(sessions.map(({ session }) => session));
  // A row as new as those of the page would be among them, if it still fitted the filter.
  const older = rows.filter((row) => !known.has(row.session) && row.updatedAt <= last.updatedAt);
  return { rows: [...sessions, ...older], cursor: older.length === 0 ? cursor : next };
}

export function Sessions(): JSX.Element {
  const { query } = route.value;
  const filter = Object.fromEntries(
    Object.entries(query).filter(([name]) =>
      ["status", ...TEXT_FILTERS.map(([each]) => each)].includes(name),
    ),
  );
  const { key, rows, cursor, error, isBusy, more } = useSessions(filter);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [at, setAt] = useState(-1);
  const [bulk, setBulk] = useState<{ what: "cancel" | "retry"; rows: readonly Row[] } | null>(null);
  useEffect(() => {
    setChosen(new Set());
    setAt(-1);
  }, [key]);
  const open = (what: "cancel" | "retry"): void =>
    setBulk({ what, rows: rows.filter(({ session }) => chosen.has(session)) });
  const toggle = useCallback((id: string) => {
    setChosen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    j: () => setAt(Math.min(rows.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    x: () => rows[at] && toggle(rows[at].session),
    Enter: () => rows[at] && go(link("session", rows[at].session)),
    "/": () => search.current?.focus(),
  });
  const flags = Object.entries(filter).map(([name, value]) => ` --${name} ${shellWord(value)}`);
  return (
    <section aria-label="Sessions">
      <header class="head">
        <h1>Sessions</h1>
        <div class="filters" role="group" aria-label="Status">
          {STATUSES.map((status) => (
            <button
              type="button"
              key={status}
              aria-pressed={query["status"] === status}
              onClick={() => setQuery({ status: query["status"] === status ? "" : status })}
            >
              {status}
            </button>
          ))}
        </div>
        <div class="filters">
          {TEXT_FILTERS.map(([name, hint]) => (
            <label key={name} class="inline">
              <span class="hidden">{name}</span>
              <input
                type="search"
                value={query[name] ?? ""}
                placeholder={hint}
                ref={name === "text" ? search : null}
                onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
              />
            </label>
          ))}
        </div>
      </header>
      <Problem error={error} />
      {chosen.size === 0 ? null : (
        <div class="bulk">
          {plural(chosen.size, "session")} selected
          <button type="button" disabled={!canAct.value} onClick={() => open("cancel")}>
            Cancel…
          </button>
          <button type="button" disabled={!canAct.value} onClick={() => open("retry")}>
            Retry…
          </button>
          <button type="button" class="quiet" onClick={() => setChosen(new Set())}>
            clear
          </button>
        </div>
      )}
      {rows.length > 0 || isBusy || cursor !== null ? null : flags.length > 0 ? (
        <Empty title="No session fits these filters">
          <a href={link("sessions")}>Show all sessions</a>
        </Empty>
      ) : (
        <Empty title="No sessions" line="holdfast demo --ui">
          A session is one agent's conversation: its messages, calls, budget and versions. It appears here
          when a program opens one. To see one at work, start the demo on a page of its own:
        </Empty>
      )}
      {rows.length === 0 ? null : (
        <p class="columns sessions" aria-hidden="true">
          <span />
          <span>Status</span>
          <span>Session</span>
          <span>Title</span>
          <span>Open calls</span>
          <span>Goal</span>
          <span class="age">Changed</span>
        </p>
      )}
      <Rows
        class="table sessions"
        label="Sessions, the last changed first"
        items={rows}
        keyOf={({ session }) => session}
        rowClass={(_, index) => (index === at ? "line current" : "line")}
        draw={(row) => <SessionRow row={row} isChosen={chosen.has(row.session)} toggle={toggle} />}
        at={at}
      />
      {cursor === null ? null : <More isBusy={isBusy} load={more} label="more sessions" />}
      {rows.length === 0 && flags.length === 0 ? null : (
        <Command line={`holdfast session list${flags.join("")}`} />
      )}
      {bulk === null ? null : (
        <BulkDialog
          {...bulk}
          onClose={() => {
            setBulk(null);
            setChosen(new Set());
          }}
        />
      )}
    </section>
  );
}

function SessionRow({
  row,
  isChosen,
  toggle,
}: {
  row: Row;
  isChosen: boolean;
  toggle: (id: string) => void;
}): JSX.Element {
  return (
    <>
      <input
        type="checkbox"
        checked={isChosen}
        onChange={() => toggle(row.session)}
        aria-label={`Select session ${row.session}`}
      />
      <Mark word={wordFor(row)} />
      <a class="name" href={link("session", row.session)}>
        {row.session}
      </a>
      <span class="title sub">
        {row.parent === null ? null : <span class="tag">part of {row.parent}</span>}
        {row.stale ? <Pill word="stale" /> : null} {row.title ?? ""}
      </span>
      <span class="cell open">
        {row.openCalls === 0 ? null : <Pill word={`${row.openCalls} open`} tone="warn" />}
      </span>
      <span class="cell goal">
        {row.goal === null ? null : <a href={link("goals", row.goal)}>{row.goal}</a>}
      </span>
      <Age at={row.updatedAt} />
    </>
  );
}

const BULK = {
  cancel: {
    title: "Cancel sessions",
    verb: "Cancel",
    means: "A cancelled session starts no further call and cannot be continued.",
    done: "cancelled",
  },
  retry: {
    title: "Retry sessions",
    verb: "Retry",
    means: "A supervisor takes them up again, also if it had given up on them (holdfast supervise).",
    done: "retried",
  },
} as const;

/** Why a session is left as it is; null if the act changes it. */
function exceptionFor(what: "cancel" | "retry", row: Row): string | null {
  if (row.status !== "active") return `stays ${row.status}`;
  return what === "retry" && row.running ? "stays: it is running" : null;
}

/** First a dry run: which of them would change. Then the act, one by one, with its reason. */
function BulkDialog({
  what,
  rows,
  onClose,
}: {
  what: "cancel" | "retry";
  rows: readonly Row[];
  onClose: () => void;
}): JSX.Element {
  const [why, setWhy] = useState("");
  const [done, setDone] = useState<Readonly<Record<string, string>>>({});
  const [isBusy, setBusy] = useState(false);
  const { title, verb, means, done: word } = BULK[what];
  const fits = rows.filter((row) => exceptionFor(what, row) === null);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    let changed = 0;
    for (const { session } of fits) {
      const outcome = await act(`session ${what}`, { session, why }).then(
        () => word,
        (error: unknown) => (error instanceof Failure ? error.message : String(error)),
      );
      if (outcome === word) changed += 1;
      setDone((before) => ({ ...before, [session]: outcome }));
    }
    say(`${plural(changed, "session")} ${word}`, changed < fits.length);
    setBusy(false);
  };
  const isOver = fits.length > 0 && fits.every(({ session }) => session in done);
  const note = (row: Row): string =>
    done[row.session] ??
    exceptionFor(what, row) ??
    `will be ${word}${row.openCalls === 0 ? "" : `, with ${plural(row.openCalls, "open call")}`}`;
  return (
    <Dialog title={title} onClose={onClose} wide>
      <form onSubmit={(event) => void run(event)}>
        <p>{means}</p>
        <p>
          {plural(fits.length, "session")} of {rows.length} would change:
        </p>
        <ul class="reviewed states">
          {rows.map((row) => (
            <li key={row.session}>
              <Mark word={wordFor(row)} /> <strong class="grow">{row.session}</strong>{" "}
              <span class="sub">{note(row)}</span>
            </li>
          ))}
        </ul>
        {isOver ? null : (
          <label class="block">
            Reason
            <input
              value={why}
              required
              autofocus
              onInput={(event) => setWhy(event.currentTarget.value)}
              disabled={isBusy}
            />
          </label>
        )}
        <Command
          line={fits.map(
            ({ session }) => `holdfast session ${what} ${shellWord(session)} --why ${shellWord(why || "…")}`,
          )}
        />
        <footer class="acts">
          {isOver ? (
            <button type="button" class="main" onClick={onClose} ref={(button) => button?.focus()}>
              Done
            </button>
          ) : (
            <button
              type="submit"
              class={what === "cancel" ? "main danger" : "main"}
              disabled={isBusy || fits.length === 0}
            >
              {verb} {plural(fits.length, "session")}
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  );
}
