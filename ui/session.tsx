/** One session: its timeline, its log, its versions. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { ask, canAct, onChange, useAnswer } from "./api.ts";
import { Age, Command, Dialog, Empty, Field, Mark, More, Pill, Problem, Value } from "./parts.tsx";
import type { Series } from "./plot.ts";
import { link, route, setQuery } from "./router.ts";
import { Rows } from "./rows.tsx";
import { type Act, ActDialog, Acts } from "./session-acts.tsx";
import { wordFor } from "./sessions.tsx";
import { clock, moment, plural, shellWord, usd } from "./text.ts";
import { Legend, Timeline } from "./timeline.tsx";

type Shown = ResultOf<"session show">;

const TABS = ["timeline", "versions", "calls"] as const;

export function SessionPage({ id }: { id: string }): JSX.Element {
  const mine = (stream: string): boolean => stream === `session/${id}`;
  const { data, error } = useAnswer("session show", { session: id, calls: 200 }, mine);
  const [dialog, setDialog] = useState<Act | null>(null);
  const { tab = "timeline" } = route.value.query;
  if (data === null)
    return (
      <section aria-label="Session">
        {error ? <Problem error={error} /> : <p class="sub pad">Loading…</p>}
      </section>
    );
  const spent = data.budget.spent;
  return (
    <section aria-label={`Session ${data.session}`}>
      <header class="head">
        <p class="crumbs">
          <a href={link("sessions")}>← Sessions</a>
        </p>
        <div class="title-line">
          <h1>
            {data.title ?? data.session} <Pill word={wordFor(data)} />
          </h1>
          <Acts data={data} open={setDialog} />
        </div>
        <p class="sub facts-line">
          <code>{data.session}</code>
          <span>{plural(data.messages, "message")}</span>
          <span>version {data.version}</span>
          <span>{plural(data.callCount, "call")}</span>
          {spent.usd === undefined ? null : (
            <span>
              {usd(spent.usd)}
              {data.budget.limit.usd === undefined ? "" : ` of ${usd(data.budget.limit.usd)}`}
            </span>
          )}
          {spent.tokens === undefined ? null : <span>{spent.tokens.toLocaleString()} tokens</span>}
          {data.goal === null ? null : <a href={link("goals", data.goal)}>goal {data.goal}</a>}
          {data.parent === null ? null : <a href={link("session", data.parent)}>part of {data.parent}</a>}
          {data.forkedFrom === null ? null : (
            <a
              href={link("session", data.forkedFrom)}
            >{`fork of ${data.forkedFrom} at ${data.forkedAtVersion}`}</a>
          )}
          {data.effects === "off" ? <Pill word="effects off" tone="warn" /> : null}
          <Age at={data.updatedAt} words="changed # ago" />
        </p>
        <Holder data={data} />
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
      </header>
      <Problem error={error} />
      <div id="view" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "versions" ? (
          <Versions data={data} onFork={() => setDialog("fork")} />
        ) : tab === "calls" ? (
          <Calls data={data} />
        ) : (
          <Past data={data} />
        )}
      </div>
      {dialog === null ? null : <ActDialog what={dialog} data={data} onClose={() => setDialog(null)} />}
    </section>
  );
}

function Holder({ data: { heldBy, goneHolder } }: { data: Shown }): JSX.Element | null {
  if (heldBy)
    return <p class="holder live">{`held by ${heldBy.label}, pid ${heldBy.pid} on ${heldBy.host}`}</p>;
  if (!goneHolder) return null;
  return (
    <p class="holder bad">{`crashed: ${goneHolder.label}, pid ${goneHolder.pid} on ${goneHolder.host}, is gone`}</p>
  );
}

// ---- The timeline and the log

function Past({ data }: { data: Shown }): JSX.Element {
  const { session } = data;
  const [before, setBefore] = useState<number | undefined>(undefined);
  const timeline = useAnswer(
    "session timeline",
    { session, before, limit: 1_000 },
    (stream) => before === undefined && stream === `session/${session}`,
  );
  const [picked, setPicked] = useState<number | null>(null);
  const shown = timeline.data;
  return (
    <>
      {shown === null ? (
        <p class="sub pad">Loading…</p>
      ) : (
        <>
          <Timeline data={shown} onPick={setPicked} />
          <Legend data={shown} />
          {shown.earlier === null && before === undefined ? null : (
            <p class="acts">
              {shown.earlier === null ? null : (
                <button type="button" onClick={() => setBefore(shown.earlier ?? undefined)}>
                  Earlier events
                </button>
              )}
              {before === undefined ? null : (
                <button type="button" onClick={() => setBefore(undefined)}>
                  Latest events
                </button>
              )}
              <span class="sub">{`events ${shown.first.toLocaleString()} to ${shown.last.toLocaleString()}`}</span>
            </p>
          )}
          {shown.turns.some((turn) => turn.usd > 0 || turn.tokens > 0) ? <Costs turns={shown.turns} /> : null}
        </>
      )}
      <Log session={session} />
      <Command line={`holdfast session timeline ${shellWord(session)}`} />
      {picked === null ? null : (
        <EventDialog session={session} seq={picked} onClose={() => setPicked(null)} />
      )}
    </>
  );
}

function Costs({ turns }: { turns: ResultOf<"session timeline">["turns"] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const key = JSON.stringify(turns.map(({ seq }) => seq));
  useEffect(() => {
    let remove: (() => void) | undefined;
    let isOver = false;
    void import("./plot.ts").then(({ draw }) => {
      if (isOver || !box.current) return;
      const series: Series[] = [
        { label: "dollars per turn", values: turns.map((each) => each.usd), colour: "--model", unit: "usd" },
        {
          label: "tokens per turn",
          values: turns.map((each) => each.tokens),
          colour: "--accent",
          unit: "tokens",
        },
      ];
      const used = series.filter(({ values }) => values.some((value) => (value ?? 0) > 0));
      remove = draw(
        box.current,
        turns.map((_, index) => index + 1),
        used,
        { isTime: false },
      );
    });
    return () => {
      isOver = true;
      remove?.();
    };
  }, [key]);
  const total = turns.reduce((sum, each) => sum + each.usd, 0);
  return (
    <figure class="plot">
      <figcaption>{`Cost and tokens of ${plural(turns.length, "turn")}: ${usd(total)}`}</figcaption>
      <div ref={box} />
    </figure>
  );
}

const PRESETS = ["", "effects", "failures", "people"];
const LINES = 100;
type Line = ResultOf<"session log">["lines"][number];

/** The newest lines first. New ones are put before those that are there; old ones are loaded on demand. */
function Log({ session }: { session: string }): JSX.Element {
  const { only = "" } = route.value.query;
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [next, setNext] = useState<number | null>(null);
  const [isBusy, setBusy] = useState(true);
  const [opened, setOpened] = useState<number | null>(null);
  const newest = useRef(0);
  const load = async (before: number | undefined): Promise<void> => {
    setBusy(true);
    const found = await ask("session log", {
      session,
      newest: true,
      only: only || undefined,
      limit: LINES,
      before,
    }).catch(() => null);
    setBusy(false);
    if (!found) return;
    setNext(found.next);
    setLines((known) => (before === undefined ? found.lines : [...known, ...found.lines]));
    if (before === undefined) newest.current = found.lines[0]?.seq ?? 0;
  };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    void load(undefined);
    const renew = async (): Promise<void> => {
      const found = await ask("session log", {
        session,
        after: newest.current,
        only: only || undefined,
        limit: 1_000,
      }).catch(() => null);
      if (!found || isOver || found.lines.length === 0) return;
      newest.current = found.lines.at(-1)?.seq ?? newest.current;
      setLines((known) => [...[...found.lines].reverse(), ...known]);
    };
    const stop = onChange((streams) => {
      if (streams !== null && !streams.includes(`session/${session}`)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void renew();
      }, 200);
    });
    return () => {
      isOver = true;
      clearTimeout(timer);
      stop();
    };
  }, [session, only]);
  return (
    <div class="log">
      <header class="sub-head">
        <h2>Events</h2>
        <div class="filters" role="group" aria-label="Preset">
          {PRESETS.map((preset) => (
            <button
              type="button"
              key={preset}
              aria-pressed={only === preset}
              onClick={() => setQuery({ only: preset })}
            >
              {preset === "" ? "all" : preset}
            </button>
          ))}
        </div>
      </header>
      {lines.length === 0 && next === null && !isBusy ? (
        <Empty title="No such events">This session has no events of that kind.</Empty>
      ) : null}
      <Rows
        class="table events"
        label="Events, the newest first"
        items={lines}
        keyOf={({ seq }) => seq}
        rowClass={() => "line"}
        draw={(line) => <LogLine line={line} open={setOpened} />}
      />
      {next === null ? null : <More isBusy={isBusy} load={() => void load(next)} label="older events" />}
      {opened === null ? null : (
        <EventDialog session={session} seq={opened} onClose={() => setOpened(null)} />
      )}
    </div>
  );
}

const BAD_WORDS = ["unknown", "failed", "cancelled"];

function LogLine({ line, open }: { line: Line; open: (seq: number) => void }): JSX.Element {
  const { seq, at, word, text } = line;
  const tone =
    BAD_WORDS.includes(word) || text.includes(" was lost") ? "bad" : word === "waits" ? "warn" : "";
  return (
    <button type="button" class="line-button" onClick={() => open(seq)}>
      <span class="seq">{seq}</span>
      <time dateTime={at} title={moment(at)}>
        {clock(at)}
      </time>
      <span class={`word ${tone}`}>{word}</span>
      <span class="text">{text}</span>
    </button>
  );
}

/** The hashes of artifacts in the data of an event, wherever they are. */
function artifactsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const found = Object.entries(value).flatMap(([name, each]) =>
    name === "artifact" && typeof each === "string" && /^[0-9a-f]{64}$/.test(each)
      ? [each]
      : artifactsIn(each),
  );
  return [...new Set(found)];
}

function EventDialog({
  session,
  seq,
  onClose,
}: {
  session: string;
  seq: number;
  onClose: () => void;
}): JSX.Element {
  const { data, error } = useAnswer("session event", { session, seq }, () => false);
  return (
    <Dialog title={`Event ${seq}`} onClose={onClose} wide>
      <Problem error={error} />
      {data === null ? null : (
        <>
          <dl>
            <Field name="type">{data.type}</Field>
            <Field name="at">{moment(data.at)}</Field>
          </dl>
          <Value value={data.data} />
          {artifactsIn(data.data).map((hash) => (
            <p key={hash}>
              <a
                href={`/api/artifact/${hash}`}
                download={hash}
              >{`download artifact ${hash.slice(0, 12)}…`}</a>
            </p>
          ))}
        </>
      )}
      <Command line={`holdfast session event ${shellWord(session)} ${seq}`} />
    </Dialog>
  );
}

// ---- Versions

function Versions({ data, onFork }: { data: Shown; onFork: () => void }): JSX.Element {
  const { session } = data;
  const { query } = route.value;
  const version = Math.min(data.version, Number(query["version"] ?? data.version)) || data.version;
  const against = query["with"] === undefined ? null : Number(query["with"]);
  const [shown, setShown] = useState(version);
  useEffect(() => setShown(version), [version]);
  if (data.version === 0) {
    return (
      <Empty title="No versions yet" line={`holdfast session versions ${shellWord(session)}`}>
        A turn of the agent that ends is a numbered version. Each can be read, compared and forked for good.
      </Empty>
    );
  }
  return (
    <div class="versions">
      <div class="slider">
        <label for="version">
          Version <strong>{shown}</strong> of {data.version}
        </label>
        <input
          id="version"
          type="range"
          min={1}
          max={data.version}
          value={shown}
          onInput={(event) => setShown(Number(event.currentTarget.value))}
          onChange={(event) => setQuery({ version: event.currentTarget.value })}
        />
        <label class="inline">
          Compare with
          <input
            type="number"
            min={1}
            max={data.version}
            value={against ?? ""}
            onChange={(event) => setQuery({ with: event.currentTarget.value })}
          />
        </label>
        <button type="button" disabled={!canAct.value} onClick={onFork}>
          {`Fork at ${version}…`}
        </button>
      </div>
      {against === null ? (
        <Transcript session={session} version={version} />
      ) : (
        <Difference session={session} one={version} other={against} />
      )}
    </div>
  );
}

function Transcript({ session, version }: { session: string; version: number }): JSX.Element {
  const [before, setBefore] = useState<number | undefined>(undefined);
  const { data, error } = useAnswer("session at", { session, version, before }, () => false);
  if (error) return <Problem error={error} />;
  if (data === null) return <p class="sub pad">Loading…</p>;
  return (
    <div class="transcript">
      <p class="sub">{`as of ${moment(data.at)}${data.label === null ? "" : `, ${data.label}`}: ${plural(data.total, "message")}`}</p>
      {data.first === 0 ? null : (
        <button type="button" class="quiet" onClick={() => setBefore(data.first)}>
          {`${data.first} earlier`}
        </button>
      )}
      <ol class="messages">
        {data.messages.map((message) => (
          <li key={message.id} class={`message ${message.role}`}>
            <span class="role">{message.role}</span>
            <div class="blocks">
              {message.blocks.map((block, index) => (
                <div key={index} class={`block-text ${block.kind}`}>
                  {block.kind === "tool_call" ? <strong>{`${block.tool} `}</strong> : null}
                  {block.text}
                </div>
              ))}
            </div>
          </li>
        ))}
      </ol>
      <Command line={`holdfast session at ${shellWord(session)} ${version}`} />
    </div>
  );
}

function Difference({ session, one, other }: { session: string; one: number; other: number }): JSX.Element {
  const [before, after] = one < other ? [one, other] : [other, one];
  const { data, error } = useAnswer("session diff", { session, before, after }, () => false);
  if (error) return <Problem error={error} />;
  if (data === null) return <p class="sub pad">Loading…</p>;
  const rows = [
    ...data.removed.map((each) => ["−", each] as const),
    ...data.changed.flatMap((each) => [["−", each.before] as const, ["+", each.after] as const]),
    ...data.added.map((each) => ["+", each] as const),
  ];
  const units = [...new Set([...Object.keys(data.spent.before), ...Object.keys(data.spent.after)])];
  return (
    <div class="diff">
      <p class="sub">{`from version ${before} to ${after}: ${plural(data.added.length, "message")} added, ${data.removed.length} removed, ${data.same} the same`}</p>
      <ol class="messages">
        {rows.map(([mark, message], index) => (
          <li key={index} class={`message ${mark === "+" ? "added" : "removed"}`}>
            <span class="role">{`${mark} ${message.role}`}</span>
            <div class="blocks">{message.text}</div>
          </li>
        ))}
      </ol>
      {data.steps.map(({ before: was, after: is }) => (
        <p key={`${was} ${is}`} class="sub">{`plan: ${was ?? "nothing"} → ${is ?? "nothing"}`}</p>
      ))}
      {data.system.before === data.system.after ? null : (
        <p class="sub">{`system prompt: ${data.system.before ?? "none"} → ${data.system.after ?? "none"}`}</p>
      )}
      <p class="sub">
        {units
          .map((unit) => {
            const [was, is] = [data.spent.before[unit] ?? 0, data.spent.after[unit] ?? 0];
            return unit === "usd"
              ? `spent ${usd(was)} → ${usd(is)}`
              : `${unit} ${was.toLocaleString()} → ${is.toLocaleString()}`;
          })
          .join(", ")}
      </p>
      <Command line={`holdfast session diff ${shellWord(session)} ${before} ${after}`} />
    </div>
  );
}

// ---- Calls

const SETTLED_BY: Readonly<Record<string, string>> = {
  late: "by its late answer",
  verify: "by verify",
  person: "by a person",
  interrupted: "because it was interrupted",
  fork: "because it belongs to the parent",
};

/** The source of an outcome, where it is not the tool itself. */
export function settledBy({ settledBy: by }: { readonly settledBy: string | null }): string {
  return by === null ? "" : (SETTLED_BY[by] ?? "");
}

function Calls({ data }: { data: Shown }): JSX.Element {
  const calls = [...data.calls].reverse();
  if (calls.length === 0)
    return <Empty title="No calls">A call of a tool appears here before its effect starts.</Empty>;
  return (
    <>
      <ul class="table calls" aria-label="Calls, the latest first">
        {calls.map((call) => (
          <li key={call.callId} class="line">
            <Mark word={call.status} />
            <strong class="name">{call.tool}</strong>
            <code class="grow text">{JSON.stringify(call.args)}</code>
            {call.attempt > 1 ? <span class="tag">attempt {call.attempt}</span> : null}
            <span class="sub">{settledBy(call)}</span>
            <Age at={call.issuedAt} />
          </li>
        ))}
      </ul>
      {data.callCount > calls.length ? (
        <p class="sub">{`the latest ${calls.length} of ${data.callCount}; the ledger finds the rest`}</p>
      ) : null}
      <Command line={`holdfast calls --session ${shellWord(data.session)}`} />
    </>
  );
}
