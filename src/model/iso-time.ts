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
