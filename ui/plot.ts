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
 * Draws bars and lines over time (seconds), or over whole numbers. Returns a function that removes the plot.
 */
export function draw(
  into: HTMLElement,
  at: readonly number[],
  series: readonly Series[],
  { isTime = true } = {},
): () => void {
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
      legend: { show: series.length > 1, live: false },
      scales: {
        x: { time: isTime, range: (_: unknown, min: number, max: number) => pad(min, max, isTime) },
        ...Object.fromEntries(units.map((unit) => [unit, { range: fromZero }])),
      },
      axes: [
        isTime
          ? { ...axis, grid: { show: false }, size: 32 }
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
          fill: index === 0 ? `${colour(name)}55` : undefined,
          width: index === 0 ? 0 : 1.5,
          ...(index === 0 && bars ? { paths: bars } : {}),
          points: { show: index > 0 && at.length < 60 },
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

function fromZero(_: unknown, _min: number, max: number): [number, number] {
  return [0, max > 0 ? max * 1.15 : 1];
}

/** Half a bar of room on both sides. */
function pad(min: number, max: number, isTime: boolean): [number, number] {
  const room = isTime ? Math.max(1_800, (max - min) * 0.03) : 0.6;
  return [min - room, max + room];
}

function format(number: number, unit: string): string {
  if (unit === "usd")
    return `$${number < 1 ? number.toPrecision(2).replace(/\.?0+$/, "") : number.toFixed(2)}`;
  return number >= 1_000 ? `${Math.round(number / 100) / 10}k` : String(number);
}
