/** What was typed, as the values that operations take. */

import { Misuse } from "./failure.ts";

type Typed = string | readonly string[] | boolean | undefined;

/** The goal that was named, on the command line or in the environment. */
export function goalSaid(typed: Typed): string | undefined {
  return (typed as string | undefined) ?? (process.env["HOLDFAST_GOAL"] || undefined);
}

export function whole(name: string, typed: Typed): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(typed);
  if (typeof typed === "string" && /^\d+$/.test(typed) && Number.isSafeInteger(number)) return number;
  throw new Misuse(`${name} is not a whole number: ${String(typed)}`, `Say for example ${name} 3`);
}

export function share(name: string, typed: Typed): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(String(typed).replace(/%$/, "")) / (String(typed).endsWith("%") ? 100 : 1);
  if (number >= 0 && number <= 1) return number;
  throw new Misuse(`${name} is not a share: ${String(typed)}`, `Say for example ${name} 80%`);
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function duration(name: string, typed: Typed): number | undefined {
  if (typed === undefined) return undefined;
  const [, number, unit] = /^(\d+)(s|m|h|d)$/.exec(String(typed)) ?? [];
  if (unit !== undefined && Number(number) > 0) return Number(number) * (UNITS[unit] ?? 0);
  throw new Misuse(
    `${name} is not a length of time: ${String(typed)}`,
    `Say for example ${name} 30d, or 12h, 45m, 90s`,
  );
}

/** JSON where it is JSON, else the text itself: `8080` is a number, `postgres 17` is words. */
export function jsonOrText(typed: string | undefined): unknown {
  if (typed === undefined) return undefined;
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}

/** JSON and nothing else, for what a program will read. */
export function json(name: string, typed: Typed): unknown {
  if (typed === undefined) return undefined;
  try {
    return JSON.parse(String(typed)) as unknown;
  } catch {
    throw new Misuse(
      `${name} is not JSON: ${String(typed)}`,
      `Say for example ${name} '{"id": 1}', or for a text ${name} '"sent"'`,
    );
  }
}

/** A phase: a number, or its name. */
export function phase(typed: string | undefined): number | string | undefined {
  return typed !== undefined && /^\d+$/.test(typed) ? Number(typed) : typed;
}

/** `express: too old` */
export function alternative(typed: string): { option: string; whyNot: string } {
  const at = typed.indexOf(":");
  if (at > 0 && typed.slice(at + 1).trim() !== "") {
    return { option: typed.slice(0, at).trim(), whyNot: typed.slice(at + 1).trim() };
  }
  throw new Misuse(`--not needs a reason: ${typed}`, 'Say for example --not "express: no types of its own"');
}

export function list(typed: Typed): readonly string[] | undefined {
  return Array.isArray(typed) ? (typed as readonly string[]) : undefined;
}
