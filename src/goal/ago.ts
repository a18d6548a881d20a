import { exactAge } from "../model/time.ts";

export function ago(now: number, at: number): string {
  return `${exactAge(Math.max(0, now - at))} ago`;
}
