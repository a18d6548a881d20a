/** The fleet: who runs where, spending, latencies, and the health of the store. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { ask, Failure, useAnswer } from "./api.ts";
import { Command, Empty, Mark, Pill, Problem } from "./parts.tsx";
import { link, route, setQuery } from "./router.ts";
import { lasting, plural, shortPlace, usd } from "./text.ts";

type Fleet = ResultOf<"fleet">;

const SPANS = [
  ["24", "a day"],
  ["168", "a week"],
  ["720", "a month"],
] as const;

export function FleetPage(): JSX.Element {
  const { hours = "24" } = route.value.query;
  const { data, error } = useAnswer("fleet", { hours: Number(hours) || 24 });
  return (
    <section aria-label="Fleet">
      <header class="head">
        <h1>Fleet and health</h1>
        <div class="filters" role="group" aria-label="Time">
          {SPANS.map(([value, label]) => (
            <button
              type="button"
              key={value}
              aria-pressed={hours === value}
              onClick={() => setQuery({ hours: value })}
            >
              {label}
            </button>
          ))}
        </div>
      </header>
      <Problem error={error} />
      {data === null ? <p class="sub pad">looking…</p> : <Shown data={data} hours={Number(hours) || 24} />}
      <Health />
      <Command line={`holdfast fleet --hours ${hours}`} />
    </section>
  );
}

function Shown({ data, hours }: { data: Fleet; hours: number }): JSX.Element {
  const calls = data.tools.reduce((sum, { calls: count }) => sum + count, 0);
  const unknown = data.tools.reduce((sum, { unknown: count }) => sum + count, 0);
  const spent = data.spending.reduce((sum, each) => sum + each.usd, 0);
  const live = data.running.filter(({ dead }) => !dead);
  const numbers = [
    ["running", String(live.filter(({ kind }) => kind === "session").length), "sessions with a process"],
    ["crashed", String(data.running.length - live.length), "leases of dead processes"],
    ["spent", usd(spent), "in this time"],
    [
      "calls",
      calls.toLocaleString(),
      data.isSample ? `of the latest ${data.sampled} sessions` : "of all sessions",
    ],
    ["unknown", calls === 0 ? "0 %" : `${((100 * unknown) / calls).toFixed(1)} %`, "calls once in doubt"],
    [
      "human wait",
      data.humanWait.p50Ms === null ? "–" : lasting(data.humanWait.p50Ms),
      `median of ${plural(data.humanWait.answers, "answer")}`,
    ],
    ["store", data.bytes === null ? "–" : `${(data.bytes / 1e6).toFixed(1)} MB`, shortPlace(data.address)],
  ] as const;
  return (
    <>
      <dl class="numbers">
        {numbers.map(([name, value, about]) => (
          <div key={name} class="number">
            <dt>{name}</dt>
            <dd>
              <strong>{value}</strong>
              <span class="sub">{about}</span>
            </dd>
          </div>
        ))}
      </dl>
      {data.spending.some((each) => each.usd > 0) ? <Spending data={data} hours={hours} /> : null}
      <section class="part">
        <h2>Who runs where</h2>
        {data.running.length === 0 ? (
          <p class="sub">
            No process holds a session or a task. A program that opens one appears here with its lease.
          </p>
        ) : (
          <ul class="table">
            {data.running.map((each) => (
              <li key={`${each.name} ${each.token}`} class="line">
                <Mark word={each.dead ? "gone" : each.kind} tone={each.dead ? "bad" : "live"} />
                {each.kind === "session" ? (
                  <a class="name" href={link("session", each.name.slice("session/".length))}>
                    {each.name.slice("session/".length)}
                  </a>
                ) : (
                  <span class="name">{each.name}</span>
                )}
                <span class="grow sub">{`${each.label}, pid ${each.pid} on ${each.host}`}</span>
                <span class="tag">{`token ${each.token}`}</span>
                <span class="sub">
                  {each.dead || each.remainingMs <= 0 ? "expired" : `${lasting(each.remainingMs)} left`}
                </span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section class="part">
        <h2>Tools</h2>
        {data.tools.length === 0 ? (
          <Empty title="No calls yet">Latencies and doubtful outcomes of each tool appear here.</Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Tools">
            <table>
              <thead>
                <tr>
                  {["tool", "calls", "p50", "p99", "unknown", "failed"].map((name) => (
                    <th key={name} scope="col">
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {data.tools.map((each) => (
                  <tr key={each.tool}>
                    <th scope="row">
                      <a href={link("ledger", null, { tool: each.tool })}>{each.tool}</a>
                    </th>
                    <td>{each.calls.toLocaleString()}</td>
                    <td>{each.p50Ms === null ? "–" : lasting(each.p50Ms)}</td>
                    <td>{each.p99Ms === null ? "–" : lasting(each.p99Ms)}</td>
                    <td class={each.unknown > 0 ? "bad" : ""}>{each.unknown}</td>
                    <td>{each.failed}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}

const BY = ["goal", "tool", "model"] as const;

const HOUR_MS = 3_600_000;

/** Hours without spending count as well: a plot without them would lie. */
function everyHour(spending: Fleet["spending"], hours: number): { at: number[]; values: (number | null)[] } {
  const known = new Map(spending.map(({ hour, usd: amount }) => [Date.parse(hour), amount]));
  const last = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  const times = Array.from({ length: hours }, (_, index) => last - (hours - 1 - index) * HOUR_MS);
  return { at: times.map((time) => time / 1_000), values: times.map((time) => known.get(time) ?? null) };
}

function Spending({ data, hours }: { data: Fleet; hours: number }): JSX.Element {
  const [by, setBy] = useState<(typeof BY)[number]>("goal");
  const box = useRef<HTMLDivElement>(null);
  const key = JSON.stringify([data.spending, hours]);
  useEffect(() => {
    let remove: (() => void) | undefined;
    let isOver = false;
    void import("./plot.ts").then(({ draw }) => {
      if (isOver || !box.current) return;
      const { at, values } = everyHour(data.spending, hours);
      remove = draw(box.current, at, [
        { label: "dollars per hour", values, colour: "--accent", unit: "usd" },
      ]);
    });
    return () => {
      isOver = true;
      remove?.();
    };
  }, [key]);
  const sums = new Map<string, number>();
  for (const hour of data.spending)
    for (const [name, amount] of Object.entries(hour.by[by])) sums.set(name, (sums.get(name) ?? 0) + amount);
  const rows = [...sums].sort(([, a], [, b]) => b - a).slice(0, 12);
  const most = rows[0]?.[1] || 1;
  return (
    <section class="part">
      <h2>Spending</h2>
      <div class="two">
        <figure class="plot">
          <figcaption>Dollars per hour</figcaption>
          <div ref={box} />
        </figure>
        <div>
          <div class="filters" role="group" aria-label="Spending by">
            {BY.map((each) => (
              <button type="button" key={each} aria-pressed={by === each} onClick={() => setBy(each)}>
                by {each}
              </button>
            ))}
          </div>
          <ul class="bars">
            {rows.map(([name, amount]) => (
              <li key={name}>
                <span>{name}</span>
                <span class="meter">
                  <span style={{ width: `${(100 * amount) / most}%` }} />
                </span>
                <span class="amount">{usd(amount)}</span>
              </li>
            ))}
          </ul>
        </div>
      </div>
    </section>
  );
}

function Health(): JSX.Element {
  const doctor = useAnswer("doctor", {}, () => false);
  const [check, setCheck] = useState<ResultOf<"check"> | Failure | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (): Promise<void> => {
    setBusy(true);
    setCheck(await ask("check").catch((error: unknown) => error as Failure));
    setBusy(false);
  };
  return (
    <section class="part">
      <h2>Health</h2>
      <ul class="table">
        {(doctor.data?.findings ?? []).map(({ name, ok, what, hint }) => (
          <li key={name} class="line">
            <Mark word={ok ? "good" : "look"} tone={ok ? "good" : "bad"} />
            <strong class="name">{name}</strong>
            <span class="grow sub">{hint === null ? what : `${what}. ${hint}`}</span>
          </li>
        ))}
      </ul>
      <p class="acts">
        <button type="button" disabled={isBusy} onClick={() => void run()}>
          {isBusy ? "checking…" : "Check the whole store"}
        </button>
        {check === null ? null : check instanceof Failure ? (
          <span class="bad">{check.message}</span>
        ) : (
          <Pill
            word={
              check.ok ? "everything holds" : plural(check.problems.length + check.strays.length, "problem")
            }
            tone={check.ok ? "good" : "bad"}
          />
        )}
      </p>
      {check === null || check instanceof Failure ? null : (
        <ul class="notes">
          {check.problems.map(({ invariant, where, what }) => (
            <li key={`${invariant} ${where}`} class="note">{`${invariant} ${where}: ${what}`}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
