/** Values of an imported file, each read as what it is meant to be, or as nothing. */

import type { Row } from "./imported-text.ts";

export const LINE = 500;
export const TEXT = 20_000;
const MOST_ITEMS = 1_000;

export function map(value: unknown): Row {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Row) : {};
}

export function rows(value: unknown): Row[] {
  if (!Array.isArray(value)) return [];
  return value
    .slice(0, MOST_ITEMS)
    .map((each) =>
      typeof each === "string" ? { decision: each, description: each, title: each } : map(each),
    );
}

/** A list of words; a pair such as `task-xyz: "Configure it"` is written out. */
export function strings(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  const words = value.slice(0, MOST_ITEMS).map((each) => {
    if (each === null || typeof each !== "object") return String(each);
    return Object.entries(each)
      .map(([key, text]) => `${key}: ${String(text)}`)
      .join(", ");
  });
  return words.filter((word) => word !== "");
}

export function line(value: unknown): string | null {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && text.trim() !== "" ? text.trim().slice(0, LINE) : null;
}

export function prose(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim().slice(0, TEXT) : null;
}

export function whole(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 1e9 ? value : null;
}

export function day(value: unknown): string | null {
  return typeof value === "string" && /^\d{4}-\d\d-\d\d/.test(value) ? value.slice(0, 10) : null;
}

export function time(value: unknown): number | null {
  const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

export function usage(value: unknown): number | null {
  const share = typeof value === "string" ? Number(value.replace("%", "")) / 100 : value;
  return typeof share === "number" && share >= 0 && share <= 1 ? share : null;
}
