/** Times and durations as text. */

/** `2026-01-31T12:00:00.000Z` */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** `3 d`: the largest unit, rounded down. */
export function age(ms: number): string {
  const unit = UNITS.find(([, size]) => ms >= size);
  return unit ? `${Math.floor(ms / unit[1])} ${unit[0]}` : "0 s";
}

/** `3 d 4 h`: the two largest units, rounded down. */
export function exactAge(ms: number): string {
  const first = UNITS.findIndex(([, size]) => ms >= size);
  if (first < 0) return "0 s";
  let rest = ms;
  const parts = UNITS.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count > 0 ? `${count} ${name}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** Milliseconds of `90s`, `45m`, `12h` or `30d`; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, number, unit = ""] = /^(\d+)([smhd])$/.exec(text) ?? [];
  return Number(number) > 0 ? Number(number) * (SECONDS[unit] ?? 0) * 1_000 : undefined;
}
