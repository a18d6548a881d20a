/** All sessions: filtered by the address, by pages, live, with bulk cancel and retry after a dry run. */

import type { JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { act, ask, canAct, Failure, onChange } from "./api.ts";
import { memo } from "./memo.ts";
import { Age, Command, Dialog, Empty, Mark, More, Pill, Problem, say, useKeys } from "./parts.tsx";
import { go, link, route, setQuery } from "./router.ts";
import { plural, shellWord } from "./text.ts";

type Row = ResultOf<"session list">["sessions"][number];

const PAGE = 100;
const STATUSES = ["running", "crashed", "idle", "completed", "failed", "cancelled"];
const TEXT_FILTERS = [
  ["text", "Find an id, a title or a goal"],
  ["goal", "Goal"],
  ["tool", "Tool"],
  ["metadata", "Metadata: name=value"],
] as const;

export function wordFor({ status, running, crashed }: Row): string {
  if (status !== "active") return status;
  return running ? "running" : crashed ? "crashed" : "idle";
}

/** The list by pages: later pages stay as they are while the first is renewed. */
function useSessions(filter: Readonly<Record<string, string>>) {
  const [pages, setPages] = useState<readonly (readonly Row[])[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
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
        if (from !== null) {
          setPages((before) => [...before, found.sessions]);
          setCursor(found.cursor);
          return;
        }
        const ids = new Set(found.sessions.map(({ session }) => session));
        setPages((before) => {
          const rest = before
            .slice(1)
            .map((page) =>
              page.some((row) => ids.has(row.session)) ? page.filter((row) => !ids.has(row.session)) : page,
            );
          return [found.sessions, ...rest];
        });
        setCursor((before) => (before === null ? found.cursor : before));
      } catch (problem) {
        if (problem instanceof Failure) setError(problem);
      } finally {
        setBusy(false);
      }
    },
    [key],
  );
  useEffect(() => {
    setPages([]);
    setCursor(null);
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
  return { pages, cursor, error, isBusy, more: () => (cursor === null ? undefined : void load(cursor)) };
}

export function Sessions(): JSX.Element {
  const { query } = route.value;
  const filter = Object.fromEntries(
    Object.entries(query).filter(([name]) =>
      ["status", ...TEXT_FILTERS.map(([each]) => each)].includes(name),
    ),
  );
  const { pages, cursor, error, isBusy, more } = useSessions(filter);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [at, setAt] = useState(-1);
  const [bulk, setBulk] = useState<"cancel" | "retry" | null>(null);
  const rows = pages.flat();
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
  const current = rows[at]?.session ?? null;
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
          <button type="button" disabled={!canAct.value} onClick={() => setBulk("cancel")}>
            Cancel…
          </button>
          <button type="button" disabled={!canAct.value} onClick={() => setBulk("retry")}>
            Retry…
          </button>
          <button type="button" class="quiet" onClick={() => setChosen(new Set())}>
            clear
          </button>
        </div>
      )}
      {rows.length === 0 && !isBusy ? (
        <Empty title="No sessions" line="holdfast demo --keep">
          A session is one agent's conversation: its messages, calls, budget and versions. It appears here
          when a program opens one. The demo leaves one behind:
        </Empty>
      ) : null}
      {rows.length === 0 ? null : (
        <p class="columns sessions" aria-hidden="true">
          <span class="mark">Status</span>
          <span class="name">Session</span>
          <span class="grow">Title</span>
          <span class="cell open">Calls</span>
          <span class="cell goal">Goal</span>
          <span class="age">Changed</span>
        </p>
      )}
      <ul class="table sessions" aria-label="Sessions, the last changed first">
        {pages.map((page, index) => (
          <Page
            key={index}
            page={page}
            chosen={page.some((row) => chosen.has(row.session)) ? chosen : NONE}
            current={page.some((row) => row.session === current) ? current : null}
            toggle={toggle}
          />
        ))}
      </ul>
      {cursor === null ? null : <More isBusy={isBusy} load={more} label="more sessions" />}
      <Command line={`holdfast session list${flags.join("")}`} />
      {bulk === null ? null : (
        <BulkDialog
          what={bulk}
          rows={rows.filter(({ session }) => chosen.has(session))}
          onClose={() => {
            setBulk(null);
            setChosen(new Set());
          }}
        />
      )}
    </section>
  );
}

const NONE: ReadonlySet<string> = new Set();

interface PageProps {
  readonly page: readonly Row[];
  readonly chosen: ReadonlySet<string>;
  readonly current: string | null;
  readonly toggle: (id: string) => void;
}

/** A page is drawn again only if it changed: a list of ten thousand stays quick. */
const Page = memo(({ page, chosen, current, toggle }: PageProps) => (
  <>
    {page.map((row) => (
      <li key={row.session} class={`line ${row.session === current ? "current" : ""}`}>
        <input
          type="checkbox"
          checked={chosen.has(row.session)}
          onChange={() => toggle(row.session)}
          aria-label={`Select session ${row.session}`}
        />
        <Mark word={wordFor(row)} />
        <a class="name" href={link("session", row.session)}>
          {row.session}
        </a>
        <span class="grow sub">{row.title ?? ""}</span>
        {row.parent === null ? null : <span class="tag">part of {row.parent}</span>}
        {row.stale ? <Pill word="stale" /> : null}
        <span class="cell open">
          {row.openCalls === 0 ? null : <Pill word={plural(row.openCalls, "open call")} tone="warn" />}
        </span>
        <span class="cell goal">
          {row.goal === null ? null : <a href={link("goals", row.goal)}>{row.goal}</a>}
        </span>
        <Age at={row.updatedAt} />
      </li>
    ))}
  </>
));

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
  const fits = rows.filter(({ status }) => status === "active");
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (why.trim() === "") return;
    setBusy(true);
    for (const { session } of fits) {
      const outcome = await act(`session ${what}`, { session, why }).then(
        () => "done",
        (error: unknown) => (error instanceof Failure ? error.message : String(error)),
      );
      setDone((before) => ({ ...before, [session]: outcome }));
    }
    say(`${what}: ${plural(fits.length, "session")}`);
    setBusy(false);
  };
  const isOver = fits.length > 0 && fits.every(({ session }) => session in done);
  return (
    <Dialog title={what === "cancel" ? "Cancel sessions" : "Retry sessions"} onClose={onClose} wide>
      <form onSubmit={(event) => void run(event)}>
        <p>
          {plural(fits.length, "session")} of {rows.length} would change. Ended sessions are left as they are.
        </p>
        <ul class="reviewed states">
          {rows.map((row) => (
            <li key={row.session}>
              <Mark word={wordFor(row)} /> <strong class="grow">{row.session}</strong>{" "}
              <span class="sub">
                {done[row.session] ??
                  (row.status === "active"
                    ? `will be ${what === "cancel" ? "cancelled" : "retried"}`
                    : "stays")}
              </span>
            </li>
          ))}
        </ul>
        <label class="block">
          Reason
          <input value={why} required onInput={(event) => setWhy(event.currentTarget.value)} />
        </label>
        <Command
          line={`holdfast session ${what} ${shellWord(fits[0]?.session ?? "…")} --why ${shellWord(why || "…")}`}
        />
        <footer class="acts">
          {isOver ? null : (
            <button type="submit" class="main" disabled={isBusy || fits.length === 0}>
              {what === "cancel" ? "Cancel" : "Retry"} {plural(fits.length, "session")}
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  );
}
