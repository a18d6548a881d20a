/**
 * The timeline of a session: a lane for each process that held it, a bar for each thing it did.
 *
 * A session sleeps for days and then does ten things within a second, so the scale is not linear: a stretch
 * of time between two changes takes room by the fourth root of its length. The axis names the times.
 */

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { ResultOf } from "../src/operations/index.ts";
import { useRoom } from "./parts.tsx";
import { clock, lasting, moment } from "./text.ts";

export type TimelineData = ResultOf<"session timeline">;
type Bar = TimelineData["bars"][number];
type Lane = TimelineData["lanes"][number];

const HEAD = 26;
const BAR = 16;
const GAP = 4;
const LABEL = 150;
const MIN_BAR = 5;
const MIN_STEP = 3;
const STRETCH = 0.25;
const LETTER = 6.4;
/** Bars of a lane above which names are left out where there is no room. */
const MANY = 60;

const ms = (iso: string): number => Date.parse(iso);

/** Maps times to positions. Every change gets some room, however close the next one is. */
function makeScale(times: readonly number[], width: number): { x: (at: number) => number; width: number } {
  const stops = [...new Set(times)].sort((a, b) => a - b);
  const weights = stops
    .slice(1)
    .map((at, index) => MIN_STEP + ((at - (stops[index] ?? at)) / 10) ** STRETCH * 10);
  const total = weights.reduce((sum, each) => sum + each, 0) || 1;
  // Many changes need more room than the window has: then the timeline scrolls.
  const wide = Math.max(width, stops.length * 4);
  const xs = [0];
  for (const weight of weights) xs.push((xs.at(-1) ?? 0) + (weight / total) * wide);
  const x = (at: number): number => {
    let low = 0;
    let high = stops.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((stops[middle] ?? 0) < at) low = middle + 1;
      else high = middle;
    }
    return xs[low] ?? 0;
  };
  return { x, width: wide };
}

interface Placed {
  readonly bar: Bar;
  readonly x: number;
  readonly width: number;
  readonly row: number;
  readonly isBeside: boolean;
}

/** Puts bars of a lane into as few rows as they need. */
function place(
  bars: readonly Bar[],
  { x, width: most }: ReturnType<typeof makeScale>,
  end: number,
): { placed: Placed[]; rows: number } {
  const ends: number[] = [];
  const placed = bars.map((bar) => {
    const start = x(ms(bar.from));
    const width = Math.max(MIN_BAR, x(bar.until === null ? end : ms(bar.until)) - start);
    // An effect that is too short for its name has it beside it, unless there are too many of them.
    const beside = LETTER * bar.label.length + 10;
    const isBeside =
      bar.kind === "tool" && bars.length < MANY && beside > width && start + width + beside < most;
    let row = ends.findIndex((each) => each <= start);
    if (row < 0) row = ends.length;
    ends[row] = start + width + (isBeside ? beside : 1);
    return { bar, x: start, width, row, isBeside };
  });
  return { placed, rows: Math.max(1, ends.length) };
}

function toneOf({ kind, status, effect }: Bar): string {
  if (kind === "gap") return "gap";
  if (kind === "tool") {
    if (status === "unknown") return "tool unknown";
    if (status === "failed") return "tool failed";
    return `tool ${effect ?? "mutate"}`;
  }
  return kind;
}

function titleOf({ kind, label, status, from, until, attempt, call, answeredBy }: Bar, end: number): string {
  const took = lasting((until === null ? end : ms(until)) - ms(from));
  const tried = (attempt ?? 1) > 1 ? `, attempt ${attempt}` : "";
  if (kind === "gap") return `crash: ${label}`;
  if (kind === "repeat") return `${label}: not run again, it repeats an earlier call`;
  if (kind === "wait")
    return `${label} waits for a person: ${took}, ${status}${answeredBy === null ? "" : ` by ${answeredBy}`}`;
  return `${kind === "model" ? "model call" : kind === "verify" ? `verify of ${label}: ${status}` : `${label}${tried}: ${status}`}, ${took}${call === null ? "" : `, ${call}`}`;
}

export function Timeline({
  data,
  onPick,
}: {
  data: TimelineData;
  onPick: (seq: number) => void;
}): JSX.Element {
  const [box, room] = useRoom();
  const isNarrow = room < 560;
  const left = isNarrow ? 0 : LABEL;
  const drawn = useMemo(() => layout(data, room - left - 32), [data, room, left]);
  const { lanes, scale, height, ticks, end } = drawn;
  useEffect(() => {
    if (box.current) box.current.scrollLeft = box.current.scrollWidth;
  }, [scale.width]);
  const crashes = data.lanes.filter(({ crashed }) => crashed).length;
  const summary = `${data.lanes.length} processes held this session, ${crashes} of them crashed. The event log below lists the same.`;
  return (
    <div class="timeline" ref={box} tabIndex={0} role="region" aria-label="Timeline">
      <svg width={left + scale.width + 12} height={height} role="img" aria-label={summary}>
        <defs>
          <pattern
            id="crash"
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <rect width="6" height="6" class="hatch-back" />
            <line x1="0" y1="0" x2="0" y2="6" class="hatch" />
          </pattern>
          <pattern
            id="waiting"
            width="5"
            height="5"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(-45)"
          >
            <rect width="5" height="5" class="wait-back" />
            <line x1="0" y1="0" x2="0" y2="5" class="wait-line" />
          </pattern>
        </defs>
        <g transform={`translate(${left},0)`}>
          {ticks.map(({ x, text }) => (
            <g key={x} class="tick">
              <line x1={x} x2={x} y1={HEAD - 6} y2={height} />
              <text x={x + 3} y={HEAD - 10}>
                {text}
              </text>
            </g>
          ))}
        </g>
        {lanes.map(({ lane, y, height: tall, placed, x, width }) => (
          <g key={`${lane.token} ${lane.from}`} transform={`translate(0,${y})`}>
            {isNarrow ? null : <LaneLabel lane={lane} />}
            <g transform={`translate(${left},0)`}>
              <rect
                class={lane.crashed ? "lane crashed" : "lane"}
                x={x}
                y={0}
                width={Math.max(2, width)}
                height={tall}
                rx={4}
              >
                <title>{`token ${lane.token}: ${lane.owner ?? "earlier"}, from ${moment(lane.from)}`}</title>
              </rect>
              {placed.map(({ bar, x: at, width: wide, row, isBeside }) => (
                <g
                  key={`${bar.kind} ${bar.seq}`}
                  class={`bar ${toneOf(bar)} ${bar.until === null ? "open" : ""}`}
                  onClick={() => onPick(bar.seq)}
                >
                  <title>{titleOf(bar, end)}</title>
                  <rect x={at} y={3 + row * (BAR + GAP)} width={wide} height={BAR} rx={3} />
                  <text
                    x={isBeside ? at + wide + 4 : at + 5}
                    y={3 + row * (BAR + GAP) + 12}
                    class={isBeside ? "beside" : ""}
                  >
                    {isBeside ? bar.label : nameIn(bar, wide)}
                  </text>
                </g>
              ))}
            </g>
          </g>
        ))}
      </svg>
    </div>
  );
}

/** The name of a bar as far as there is room in it; nothing if that would be a riddle. */
function nameIn({ kind, label }: Bar, width: number): string {
  const name = kind === "gap" ? "crash" : kind === "wait" ? "waits for a person" : label;
  const letters = Math.floor((width - 9) / LETTER);
  if (name.length <= letters) return name;
  return letters < 5 ? "" : `${name.slice(0, letters - 1)}…`;
}

function LaneLabel({ lane }: { lane: Lane }): JSX.Element {
  const name = (lane.owner ?? "earlier").split("/").at(-1) ?? "";
  return (
    <g class="lane-label">
      <text x={0} y={14}>
        {name.length > 20 ? `${name.slice(0, 19)}…` : name}
      </text>
      <text x={0} y={28} class="minor">
        {lane.pid === null ? "" : `pid ${lane.pid}, token ${lane.token}`}
      </text>
    </g>
  );
}

function layout(data: TimelineData, width: number) {
  const end = ms(data.now);
  const times = data.bars.flatMap(({ from, until }) => [ms(from), until === null ? end : ms(until)]);
  for (const { from, until } of data.lanes) times.push(ms(from), until === null ? end : ms(until));
  const scale = makeScale(times, width);
  let y = HEAD;
  const lanes = data.lanes.map((lane) => {
    const own = data.bars.filter(({ token }) => token === lane.token);
    const { placed, rows } = place(own, scale, end);
    const height = Math.max(rows * (BAR + GAP) + 2, 34);
    const x = scale.x(ms(lane.from));
    const made = {
      lane,
      y,
      height,
      placed,
      x,
      width: scale.x(lane.until === null ? end : ms(lane.until)) - x,
    };
    y += height + 6;
    return made;
  });
  return {
    lanes,
    scale,
    height: y + 4,
    ticks: ticksOf(
      [...new Set(times)].sort((a, b) => a - b),
      scale,
    ),
    end,
  };
}

const TICK_ROOM = 92;

/** Times along the axis. Where the second does not tell two apart, the milliseconds do. */
function ticksOf(
  times: readonly number[],
  { x, width }: ReturnType<typeof makeScale>,
): { x: number; text: string }[] {
  const ticks: { x: number; text: string }[] = [];
  let day = "";
  let last = "";
  for (const at of times) {
    const here = x(at);
    const isFree = ticks.length === 0 || here - (ticks.at(-1)?.x ?? 0) >= TICK_ROOM;
    if (!isFree || here > width - TICK_ROOM / 2) continue;
    const time = clock(new Date(at).toISOString());
    const date = new Date(at).toLocaleDateString(undefined, { month: "short", day: "numeric" });
    const exact = time === last ? `${time}.${String(at % 1_000).padStart(3, "0")}` : time;
    ticks.push({ x: here, text: date === day ? exact : `${date} ${time.slice(0, 5)}` });
    day = date;
    last = time;
  }
  return ticks;
}

/** Explains the kinds of bars that are there. */
export function Legend({ data }: { data: TimelineData }): JSX.Element {
  const drawn = new Set(data.bars.map(toneOf));
  const rows = [
    ["model", "model call"],
    ["tool mutate", "effect"],
    ["tool read", "read"],
    ["tool unknown", "outcome unknown"],
    ["tool failed", "failed"],
    ["verify", "verify"],
    ["wait", "waits for a person"],
    ["repeat", "repeat, not run"],
    ["gap", "crash"],
  ] as const;
  return (
    <ul class="legend" aria-label="Colours">
      {rows
        .filter(([tone]) => drawn.has(tone))
        .map(([tone, label]) => (
          <li key={tone}>
            <svg width="18" height="12" aria-hidden="true">
              <g class={`bar ${tone}`}>
                <rect x="1" y="1" width="16" height="10" rx="2" />
              </g>
            </svg>
            {label}
          </li>
        ))}
    </ul>
  );
}
