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
      {data === null ? <p class="sub pad">Loading…</p> : <Shown data={data} hours={Number(hours) || 24} />}
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
  const span = SPANS.find(([each]) => each === String(hours))?.[1] ?? `${hours} hours`;
  const numbers = [
    ["Running", String(live.filter(({ kind }) => kind === "session").length), "sessions with a process"],
    ["Crashed", String(data.running.length - live.length), "processes that died"],
    ["Spent", usd(spent), `in ${span}`],
    ["Calls", calls.toLocaleString(), `in ${span}, repeats left out`],
    [
      "Unknown",
      calls === 0 ? "–" : `${((100 * unknown) / calls).toFixed(1)}%`,
      "of calls were once in doubt",
    ],
    [
      "Human wait",
      data.humanWait.p50Ms === null ? "–" : lasting(data.humanWait.p50Ms),
      data.humanWait.p99Ms === null
        ? "nobody had to answer"
        : `p50 of ${plural(data.humanWait.answers, "answer")}; p99 ${lasting(data.humanWait.p99Ms)}`,
    ],
    ["Store", data.bytes === null ? "–" : `${(data.bytes / 1e6).toFixed(1)} MB`, shortPlace(data.address)],
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
        {data.tools.length === 0 ? null : (
          <p class="sub">
            {data.isSample
              ? `The latest ${plural(data.sampled, "session")} of this time; there are more.`
              : `All ${plural(data.sampled, "session")} of this time.`}{" "}
            p50 and p99 are how long an attempt took that returned by itself.
          </p>
        )}
        {data.tools.length === 0 ? (
          <Empty title="No calls in this time">
            The latency and the unknown outcomes of each tool appear here.
          </Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Tools">
            <table>
              <thead>
                <tr>
                  {["Tool", "Calls", "p50", "p99", "Unknown", "Failed"].map((name) => (
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

/** From the most expensive down; the last is for all others. */
const COLOURS = ["--accent", "--model", "--live", "--warn", "--read"] as const;

interface Part {
  readonly name: string;
  readonly usd: number;
  readonly colour: string;
  readonly values: readonly (number | null)[];
}

/** Spending by hour, in a part for each name. Hours without spending count as well: a plot without them would lie. */
function partsOf(spending: Fleet["spending"], by: (typeof BY)[number], hours: readonly number[]): Part[] {
  const known = new Map(spending.map((each) => [Date.parse(each.hour), each.by[by]]));
  const sums = new Map<string, number>();
  for (const each of known.values())
    for (const [name, amount] of Object.entries(each)) sums.set(name, (sums.get(name) ?? 0) + amount);
  const names = [...sums].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const own = names.length > COLOURS.length ? names.slice(0, COLOURS.length - 1) : names;
  const rest = names.slice(own.length);
  const groups = own.map((name) => ({ name, of: [name] }));
  if (rest.length > 0) groups.push({ name: "others", of: rest });
  return groups.map(({ name, of }, index) => ({
    name,
    usd: of.reduce((sum, each) => sum + (sums.get(each) ?? 0), 0),
    colour: COLOURS[index] ?? COLOURS[0],
    values: hours.map((hour) => {
      const amounts = known.get(hour);
      return amounts === undefined ? null : of.reduce((sum, each) => sum + (amounts[each] ?? 0), 0);
    }),
  }));
}

function Spending({ data, hours }: { data: Fleet; hours: number }): JSX.Element {
  const asked = BY.find((each) => each === route.value.query["by"]) ?? "goal";
  const box = useRef<HTMLDivElement>(null);
  const last = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  const times = Array.from({ length: hours }, (_, index) => last - (hours - 1 - index) * HOUR_MS);
  const parts = partsOf(data.spending, asked, times);
  const key = JSON.stringify([data.spending, hours, asked, last]);
  useEffect(() => {
    let remove: (() => void) | undefined;
    let isOver = false;
    void import("./plot.ts").then(({ draw }) => {
      if (isOver || !box.current) return;
      const series = parts.map(({ name, values, colour }) => ({ label: name, values, colour, unit: "usd" }));
      const at = times.map((time) => time / 1_000);
      remove = draw(box.current, at, series, { isStacked: true });
    });
    return () => {
      isOver = true;
      remove?.();
    };
  }, [key]);
  const most = parts[0]?.usd || 1;
  return (
    <section class="part">
      <header class="sub-head">
        <h2>Spending</h2>
        <div class="filters" role="group" aria-label="Spending by">
          {BY.map((each) => (
            <button
              type="button"
              key={each}
              aria-pressed={asked === each}
              onClick={() => setQuery({ by: each })}
            >
              by {each}
            </button>
          ))}
        </div>
      </header>
      <div class="two">
        <figure class="plot">
          <figcaption>{`Dollars per hour, by ${asked}`}</figcaption>
          <div ref={box} />
        </figure>
        <ul class="bars" aria-label={`Spending by ${asked}`}>
          {parts.map(({ name, usd: amount, colour }) => (
            <li key={name}>
              <span>{name}</span>
              <span class="meter">
                <span style={{ width: `${(100 * amount) / most}%`, background: `var(${colour})` }} />
              </span>
              <span class="amount">{usd(amount)}</span>
            </li>
          ))}
        </ul>
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
            <Mark word={ok ? "good" : "to do"} tone={ok ? "good" : "bad"} />
            <strong class="name">{name}</strong>
            <span class="grow sub">{hint === null ? what : `${what}. ${hint}`}</span>
          </li>
        ))}
      </ul>
      <Command line="holdfast doctor" />
      <p class="acts check">
        <button type="button" disabled={isBusy} onClick={() => void run()}>
          {isBusy ? "Checking…" : "Check the whole store"}
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
      <Command line="holdfast check" />
      {check === null || check instanceof Failure || check.problems.length === 0 ? null : (
        <ul class="notes">
          {check.problems.map(({ invariant, where, what }) => (
            <li key={`${invariant} ${where}`} class="note">{`${invariant} ${where}: ${what}`}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
