/** What a person has to see to, the most urgent first, and the command that helps. */
export interface Need {
  readonly what: string;
  readonly command: string;
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
