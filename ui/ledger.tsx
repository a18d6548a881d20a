/** The ledger over all sessions: who did this, when, and how often it was asked for. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { ask, Failure } from "./api.ts";
import { Age, Command, Dialog, Empty, Field, Mark, More, Problem, useKeys, Value } from "./parts.tsx";
import { link, route, setQuery } from "./router.ts";
import { Rows } from "./rows.tsx";
import { settledBy } from "./session.tsx";
import { json, moment, plural, shellWord } from "./text.ts";

type Entry = ResultOf<"ledger">["calls"][number];

const STATUSES = ["completed", "failed", "unknown", "waiting", "repeated"];

export function Ledger(): JSX.Element {
  const { text = "", status = "", tool = "" } = route.value.query;
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
  const [searched, setSearched] = useState(0);
  const [isBusy, setBusy] = useState(true);
  const [error, setError] = useState<Failure | null>(null);
  const [opened, setOpened] = useState<Entry | null>(null);
  const [at, setAt] = useState(-1);
  const box = useRef<HTMLInputElement>(null);
  const key = JSON.stringify([text, status, tool]);
  const latest = useRef(key);
  latest.current = key;
  const load = async (from: string | null): Promise<void> => {
    setBusy(true);
    try {
      const found = await ask("ledger", { text, status, tool, limit: 50, cursor: from ?? undefined });
      if (latest.current !== key) return;
      setEntries((before) => (from === null ? found.calls : [...before, ...found.calls]));
      setSearched((before) => (from === null ? 0 : before) + found.searched);
      setCursor(found.cursor);
      setError(null);
    } catch (problem) {
      if (problem instanceof Failure) setError(problem);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => void load(null), [key]);
  useKeys({
    j: () => setAt(Math.min(entries.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => entries[at] && setOpened(entries[at]),
    "/": () => box.current?.focus(),
  });
  const line = [
    "holdfast ledger",
    text && shellWord(text),
    tool && `--tool ${shellWord(tool)}`,
    status && `--status ${status}`,
  ];
  const ran = entries.filter((entry) => entry.status !== "repeated");
  return (
    <section aria-label="Ledger">
      <header class="head">
        <h1>Ledger</h1>
        <p class="sub">
          Every tool call of every session. Find a key or an argument: who paid 4711, when, and how often was
          it asked?
        </p>
        <div class="filters">
          <label class="inline wide">
            <span class="hidden">Key, argument, tool or id</span>
            <input
              type="search"
              class="big"
              ref={box}
              value={text}
              placeholder="a key, an argument, a tool or an id"
              onChange={(event) => setQuery({ text: event.currentTarget.value })}
            />
          </label>
          <div class="filters" role="group" aria-label="Status">
            {STATUSES.map((each) => (
              <button
                type="button"
                key={each}
                aria-pressed={status === each}
                onClick={() => setQuery({ status: status === each ? "" : each })}
              >
                {each}
              </button>
            ))}
          </div>
        </div>
      </header>
      <Problem error={error} />
      {text !== "" && !isBusy && entries.length > 0 ? (
        <p class="verdict">
          {`${plural(ran.length, "call")} of ${plural(new Set(ran.map((each) => each.key)).size, "key")}${entries.length === ran.length ? ", none asked for again" : `, ${plural(entries.length - ran.length, "repeat")} that did not run again`}`}
        </p>
      ) : null}
      {entries.length === 0 && !isBusy ? (
        <Empty title={text === "" ? "No calls yet" : "No such call"}>
          A call is recorded before its effect starts, so what is not here was never begun.
        </Empty>
      ) : null}
      <Rows
        class="table ledger"
        label="Calls, the oldest first"
        items={entries}
        keyOf={({ session, callId }) => `${session} ${callId}`}
        rowClass={(_, index) => (index === at ? "entry current" : "entry")}
        draw={(entry) => <EntryRow entry={entry} open={setOpened} />}
        at={at}
      />
      {cursor === null ? null : (
        <More
          isBusy={isBusy}
          load={() => void load(cursor)}
          label={`${plural(searched, "call")} searched, continue`}
        />
      )}
      <Command line={line.filter(Boolean).join(" ")} />
      {opened === null ? null : (
        <Dialog title={`Call of ${opened.tool}`} onClose={() => setOpened(null)} wide>
          <EntryFacts entry={opened} />
        </Dialog>
      )}
    </section>
  );
}

function EntryRow({ entry, open }: { entry: Entry; open: (entry: Entry) => void }): JSX.Element {
  return (
    <button type="button" class="line-button" onClick={() => open(entry)}>
      <Mark word={entry.status} />
      <strong class="name">{entry.tool}</strong>
      <code class="grow text">{json(entry.args)}</code>
      {entry.asked > 1 ? <span class="tag">{`asked ${entry.asked} times`}</span> : null}
      <span class="sub session">{entry.session}</span>
      <Age at={entry.issuedAt} />
    </button>
  );
}

function EntryFacts({ entry }: { entry: Entry }): JSX.Element {
  return (
    <dl class="facts">
      <Field name="arguments">
        <Value value={entry.args} />
      </Field>
      {entry.result === null ? null : (
        <Field name="result">
          <Value value={entry.result} />
        </Field>
      )}
      {entry.error === null ? null : <Field name="error">{entry.error}</Field>}
      <Field name="issued">{moment(entry.issuedAt)}</Field>
      {entry.settledAt === null ? null : (
        <Field name="settled">{`${moment(entry.settledAt)} ${settledBy(entry)}`}</Field>
      )}
      {entry.why === null ? null : <Field name="why">{entry.why}</Field>}
      <Field name="key">
        <code>{entry.key}</code>
      </Field>
      <Field name="call">{`${entry.callId}, ${entry.effect}, attempt ${entry.attempt}`}</Field>
      {entry.repeats === null ? null : (
        <Field name="repeats">
          <a
            href={link("session", entry.repeats.session)}
          >{`${entry.repeats.callId} of ${entry.repeats.session}`}</a>
        </Field>
      )}
      <Field name="session">
        <a href={link("session", entry.session)}>{entry.session}</a>
      </Field>
    </dl>
  );
}
