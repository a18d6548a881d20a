/** The end of time, as JavaScript knows it; beyond it, as ever, an error. */
const LAST_MS = 8.64e15;

let second = Number.NaN;
let beginning = "";

/** What `toISOString` gives for that time. Most times that are asked for in a row are of one second, and share all but their end. */
export function isoTime(ms: number): string {
  if (!(Math.abs(ms) <= LAST_MS)) return new Date(ms).toISOString();
  const whole = Math.floor(Math.trunc(ms) / 1000);
  if (whole !== second) {
    beginning = new Date(whole * 1000).toISOString().slice(0, -"000Z".length);
    second = whole;
  }
  return `${beginning}${String(Math.trunc(ms) - whole * 1000).padStart(3, "0")}Z`;
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
  let left = ms;
  const parts = UNITS.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count > 0 ? `${count} ${name}` : "";
  });
  return parts.filter(Boolean).join(" ");
}
