/**
 * Templates of the configuration: `{{args.path}}` is replaced by what the call said. A string that is one placeholder and
 * nothing else takes the value as it is, so that numbers stay numbers; anywhere else it becomes text.
 */

import { canonicalOf, type Json } from "../../model/json.ts";

/** What a placeholder may name: the call's arguments, its key, its id. */
export interface CallFacts {
  readonly args: Json;
  readonly key: string;
  readonly callId: string;
}

const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g;
const WHOLE = /^\{\{\s*([^{}]*?)\s*\}\}$/;
const NAMED = /^(?:key|callId|args(?:\.[^.\s]+)*)$/;

/** The first placeholder that cannot mean anything, in whatever is nested in the value. */
export function badPlaceholder(value: unknown): string | null {
  if (typeof value === "string") {
    for (const [, name = ""] of value.matchAll(PLACEHOLDER)) if (!NAMED.test(name)) return name;
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  for (const each of Object.values(value)) {
    const bad = badPlaceholder(each);
    if (bad !== null) return bad;
  }
  return null;
}

/**
 * Whether every placeholder of a text stands for something: an argument that is missing, null or blank says nothing, and
 * what is left of the text around it may stand anywhere. What is not one text but has texts in it (an object that is
 * compared whole) says enough by its shape, as long as nothing in it is missing.
 */
export function isSaid(template: Json, facts: CallFacts): boolean {
  if (typeof template !== "string") return fill(template, facts) !== undefined;
  return [...template.matchAll(PLACEHOLDER)].every(([, name = ""]) => {
    const value = placeholderValue(name, facts);
    return value !== undefined && value !== null && textOf(value).trim() !== "";
  });
}

/** Fills in; undefined where a placeholder names an argument that the call did not have. */
export function fill(template: Json, facts: CallFacts): Json | undefined {
  if (typeof template === "string") return fillText(template, facts);
  if (Array.isArray(template)) {
    const values = template.map((each) => fill(each as Json, facts));
    return values.includes(undefined) ? undefined : (values as Json);
  }
  if (template === null || typeof template !== "object") return template;
  const entries = Object.entries(template).map(([name, each]) => [name, fill(each as Json, facts)] as const);
  return entries.some(([, value]) => value === undefined) ? undefined : (Object.fromEntries(entries) as Json);
}

function fillText(template: string, facts: CallFacts): Json | undefined {
  const whole = WHOLE.exec(template)?.[1];
  if (whole !== undefined) return placeholderValue(whole, facts);
  let isMissing = false;
  const text = template.replace(PLACEHOLDER, (_, name: string) => {
    const value = placeholderValue(name, facts);
    isMissing ||= value === undefined;
    return textOf(value);
  });
  return isMissing ? undefined : text;
}

function placeholderValue(name: string, facts: CallFacts): Json | undefined {
  const [root = "", ...path] = name.split(".");
  let value = facts[root as keyof CallFacts] as Json | undefined;
  for (const step of path) {
    const isInside = typeof value === "object" && value !== null && Object.hasOwn(value, step);
    value = isInside ? (value as Readonly<Record<string, Json>>)[step] : undefined;
  }
  return value;
}

/** One text for one value: in whatever order the members of an object come, a key made of it is the same. */
export function textOf(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : canonicalOf(value);
}
