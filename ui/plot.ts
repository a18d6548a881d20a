/** Plots, in a file of their own that is loaded when the first one is shown. */

import Plot from "uplot";

export interface Series {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** The name of a colour in the stylesheet: `--model`. */
  readonly colour: string;
  readonly unit: string;
}

const HEIGHT = 150;

/**
 * Draws bars and lines over time (seconds), or over whole numbers: the first series as bars, the others as
 * lines. If they are stacked, all are bars, one upon the other. Returns a function that removes the plot.
 */
export function draw(
  into: HTMLElement,
  at: readonly number[],
  given: readonly Series[],
  { isTime = true, isStacked = false } = {},
): () => void {
  const series = isStacked ? stacked(given) : given;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const units = [...new Set(series.map(({ unit }) => unit))];
  const bars = Plot.paths.bars?.({ size: [0.7, 36], radius: 0.1 });
  const plot = new Plot(
    {
      width: Math.max(200, into.clientWidth),
      height: HEIGHT,
      cursor: { y: false },
      legend: { show: series.length > 1 && !isStacked, live: false },
      scales: {
        x: { time: isTime, range: (_: unknown, min: number, max: number) => pad(min, max, isTime) },
        ...Object.fromEntries(units.map((unit) => [unit, { range: fromZero }])),
      },
      axes: [
        isTime
          ? { ...axis, grid: { show: false }, size: 38, values: timesOf }
          : {
              ...axis,
              grid: { show: false },
              size: 32,
              values: (_: unknown, numbers: number[]) =>
                numbers.map((number) => (Number.isInteger(number) ? String(number) : "")),
            },
        ...units.map((unit, index) => ({
          ...axis,
          scale: unit,
          side: index === 0 ? 3 : 1,
          size: 64,
          grid: index === 0 ? axis.grid : { show: false },
          values: (_: unknown, numbers: number[]) => numbers.map((number) => format(number, unit)),
        })),
      ],
      series: [
        {},
        ...series.map(({ label, colour: name, unit }, index) => ({
          label,
          scale: unit,
          stroke: colour(name),
          fill: isStacked ? colour(name) : index === 0 ? `${colour(name)}66` : undefined,
          width: isStacked || index === 0 ? 0 : 1.5,
          ...((isStacked || index === 0) && bars ? { paths: bars } : {}),
          points: { show: !isStacked && index > 0 && at.length < 60 },
        })),
      ] as Plot.Series[],
    },
    [[...at], ...series.map(({ values }) => [...values])] as Plot.AlignedData,
    into,
  );
  const resize = new ResizeObserver(() =>
    plot.setSize({ width: Math.max(200, into.clientWidth), height: HEIGHT }),
  );
  resize.observe(into);
  return () => {
    resize.disconnect();
    plot.destroy();
  };
}

/** Each series with those below it added. The sum comes first, so that the next one is drawn over it. */
function stacked(given: readonly Series[]): readonly Series[] {
  const sums: number[] = [];
  return given
    .map((each) => ({
      ...each,
      values: each.values.map((value, index) => {
        const sum = (sums[index] ?? 0) + (value ?? 0);
        sums[index] = sum;
        return sum === 0 ? null : sum;
      }),
    }))
    .reverse();
}

const HOUR = 3_600;
const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** Hours, with the day below the first of each day; whole days have no hour. */
function timesOf(_: unknown, times: readonly number[]): string[] {
  const isDays = (times[1] ?? 0) - (times[0] ?? 0) >= 24 * HOUR;
  let day = "";
  return times.map((time) => {
    const at = new Date(time * 1_000);
    const date = DATE.format(at);
    const isNew = date !== day;
    day = date;
    if (isDays) return date;
    return `${String(at.getHours()).padStart(2, "0")}:00${isNew ? `\n${date}` : ""}`;
  });
}

function fromZero(_: unknown, _min: number, max: number): [number, number] {
  return [0, max > 0 ? max * 1.15 : 1];
}

/** Half a bar of room on both sides. */
function pad(min: number, max: number, isTime: boolean): [number, number] {
  const room = isTime ? Math.max(1_800, (max - min) * 0.03) : 0.6;
  return [min - room, max + room];
}

function format(number: number, unit: string): string {
  if (unit === "usd") return `$${number === 0 || number >= 0.01 ? number.toFixed(2) : number.toPrecision(1)}`;
  return number >= 1_000 ? `${Math.round(number / 100) / 10}k` : String(number);
}
