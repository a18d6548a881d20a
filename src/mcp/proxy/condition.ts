/**
 * Conditions and templates of `tools.yaml`.
 *
 * All fields of one condition must hold. Without `error`, it holds only for an answer that is not an error.
 *
 * Conditions have three values. A placeholder without a value, or with a blank one, makes its condition
 * `undefined`, because every text contains the empty text. It proves neither that a call landed nor that it
 * left no trace. `not` keeps `undefined`.
 *
 * A string that is only one placeholder (`{{args.orderId}}`) takes the value itself, so numbers stay numbers.
 */

import * as z from "zod";
import { canonicalJson, canonicalOf, type Json } from "../../model/json.ts";

export interface CallFacts {
  readonly args: Json;
  readonly key: string;
  readonly callId: string;
}

const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g;
const WHOLE = /^\{\{\s*([^{}]*?)\s*\}\}$/;
const NAMED = /^(?:key|callId|args(?:\.[^.\s]+)*)$/;

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
 * A missing, null or blank argument leaves only the text around it, which may match anything. An object that
 * is compared as a whole only needs all its values to be there.
 */
function hasValues(template: Json, facts: CallFacts): boolean {
  if (typeof template !== "string") return fill(template, facts) !== undefined;
  return [...template.matchAll(PLACEHOLDER)].every(([, name = ""]) => {
    const value = placeholderValue(name, facts);
    return value !== undefined && value !== null && textOf(value).trim() !== "";
  });
}

/** Returns undefined if a placeholder names an argument that the call does not have. */
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

/** Canonical, so that a key made of an object does not depend on the order of its members. */
export function textOf(value: Json | undefined): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : canonicalOf(value);
}

export interface ToolAnswer {
  readonly content?: readonly { readonly type?: string; readonly text?: string }[];
  readonly structuredContent?: Json;
  readonly isError?: boolean;
}

export interface Condition {
  /** A JSON pointer into the answer. Default: the text of all blocks, joined by newlines. */
  readonly at?: string | undefined;
  readonly equals?: Json | undefined;
  readonly contains?: string | undefined;
  readonly matches?: string | undefined;
  /** True: there must be a value at that place. False: there must be none. */
  readonly exists?: boolean | undefined;
  readonly error?: boolean | undefined;
  readonly any?: readonly Condition[] | undefined;
  readonly all?: readonly Condition[] | undefined;
  readonly not?: Condition | undefined;
}

const template = z.json().refine((value) => badPlaceholder(value) === null, {
  error: "a placeholder is {{args.…}}, {{key}} or {{callId}}",
});

export const templateSchema = template as unknown as z.ZodType<Json>;

const EVERY_TEXT = "is empty, and every text contains it";

const pattern = z.string().refine(
  (text) => {
    try {
      new RegExp(text, "u");
      return true;
    } catch (error) {
      return !(error instanceof SyntaxError);
    }
  },
  { error: "is not a regular expression" },
);

export const conditionSchema: z.ZodType<Condition> = z.lazy(() =>
  z
    .strictObject({
      at: z
        .string()
        .regex(/^(\/.*)?$/, "is not a JSON pointer: start it with /")
        .optional(),
      equals: templateSchema.optional(),
      contains: templateSchema.pipe(z.string().min(1, EVERY_TEXT)).optional(),
      matches: pattern.min(1, EVERY_TEXT).optional(),
      exists: z.boolean().optional(),
      error: z.boolean().optional(),
      any: z.array(conditionSchema).min(1).optional(),
      all: z.array(conditionSchema).min(1).optional(),
      not: conditionSchema.optional(),
    })
    .refine((said) => Object.keys(said).some((name) => name !== "at"), {
      error: "is empty: add equals, contains, matches, exists, error, any, all or not",
    }),
);

/** Returns undefined if the call has no value to compare the answer with. */
export function holds(condition: Condition, answer: ToolAnswer, facts: CallFacts): boolean | undefined {
  const { error, any, all, not } = condition;
  const isCombined =
    condition.equals === undefined &&
    condition.contains === undefined &&
    condition.matches === undefined &&
    condition.exists === undefined;
  const wantsError = error ?? (isCombined ? undefined : false);
  if (wantsError !== undefined && (answer.isError === true) !== wantsError) return false;
  const parts = ownParts(condition, answer, facts);
  if (any) parts.push(opposite(every(any.map((each) => opposite(holds(each, answer, facts))))));
  if (all) parts.push(...all.map((each) => holds(each, answer, facts)));
  if (not) parts.push(opposite(holds(not, answer, facts)));
  return every(parts);
}

function ownParts(
  { at, equals, contains, matches, exists }: Condition,
  answer: ToolAnswer,
  facts: CallFacts,
): (boolean | undefined)[] {
  const found = at === undefined || at === "" ? answerText(answer) : pointed(answer as unknown as Json, at);
  const parts: (boolean | undefined)[] = [];
  if (exists !== undefined) parts.push((found !== undefined) === exists);
  if (equals !== undefined)
    parts.push(hasValues(equals, facts) ? isEqual(found, fill(equals, facts)) : undefined);
  if (contains !== undefined) {
    const wanted = hasValues(contains, facts) ? textOf(fill(contains, facts)) : undefined;
    parts.push(wanted === undefined ? undefined : found !== undefined && textOf(found).includes(wanted));
  }
  if (matches !== undefined) parts.push(found !== undefined && new RegExp(matches, "u").test(textOf(found)));
  return parts;
}

/** AND over three values: any `false` wins; otherwise any `undefined` makes the result `undefined`. */
function every(parts: readonly (boolean | undefined)[]): boolean | undefined {
  if (parts.includes(false)) return false;
  return parts.includes(undefined) ? undefined : true;
}

function opposite(part: boolean | undefined): boolean | undefined {
  return part === undefined ? undefined : !part;
}

export function answerText(answer: ToolAnswer): string {
  return (answer.content ?? []).flatMap(({ text }) => (text === undefined ? [] : [text])).join("\n");
}

function isEqual(found: Json | undefined, wanted: Json | undefined): boolean {
  if (found === undefined || wanted === undefined) return false;
  return canonicalJson(found) === canonicalJson(wanted);
}

function pointed(value: Json, pointer: string): Json | undefined {
  let found: Json | undefined = value;
  for (const step of pointer.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    const isInside: boolean = typeof found === "object" && found !== null && Object.hasOwn(found, name);
    found = isInside ? (found as Readonly<Record<string, Json>>)[name] : undefined;
  }
  return found;
}
