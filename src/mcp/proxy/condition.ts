/**
 * What the answer of a verifying tool must look like. All fields of one condition have to hold; `any`, `all` and `not`
 * combine conditions.
 *
 * Unless `error` is said, a condition holds only for an answer that is no error: "not found" must be asked for by name
 * before it counts as an answer.
 */

import * as z from "zod";
import { canonicalJson, type Json } from "../../model/index.ts";
import { badPlaceholder, type CallFacts, fill, textOf } from "./template.ts";

/** A tool's answer, as far as conditions look at it. */
export interface ToolAnswer {
  readonly content?: readonly { readonly type?: string; readonly text?: string }[];
  readonly structuredContent?: Json;
  readonly isError?: boolean;
}

export interface Condition {
  /** Where to look: a JSON pointer into the answer. Its text, all blocks joined by newlines, unless said. */
  readonly at?: string | undefined;
  readonly equals?: Json | undefined;
  readonly contains?: string | undefined;
  /** A regular expression, without placeholders. */
  readonly matches?: string | undefined;
  /** Whether there is something at that place at all. */
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

const pattern = z.string().refine(
  (text) => {
    try {
      new RegExp(text, "u");
      return true;
    } catch (error) {
      return !(error instanceof SyntaxError);
    }
  },
  { error: "is no regular expression" },
);

export const conditionSchema: z.ZodType<Condition> = z.lazy(() =>
  z
    .strictObject({
      at: z
        .string()
        .regex(/^(\/.*)?$/, "is no JSON pointer: it begins with /")
        .optional(),
      equals: templateSchema.optional(),
      contains: templateSchema.pipe(z.string()).optional(),
      matches: pattern.optional(),
      exists: z.boolean().optional(),
      error: z.boolean().optional(),
      any: z.array(conditionSchema).min(1).optional(),
      all: z.array(conditionSchema).min(1).optional(),
      not: conditionSchema.optional(),
    })
    .refine((said) => Object.keys(said).some((name) => name !== "at"), {
      error: "says nothing: add equals, contains, matches, exists, error, any, all or not",
    }),
);

/** A placeholder without a value makes the condition false: what is not known proves nothing. */
export function holds(condition: Condition, answer: ToolAnswer, facts: CallFacts): boolean {
  const { at, equals, contains, matches, exists, error, any, all, not } = condition;
  const isCombined =
    equals === undefined && contains === undefined && matches === undefined && exists === undefined;
  const wantsError = error ?? (isCombined ? undefined : false);
  if (wantsError !== undefined && (answer.isError === true) !== wantsError) return false;
  const found = at === undefined || at === "" ? answerText(answer) : pointed(answer as unknown as Json, at);
  if (exists !== undefined && (found !== undefined) !== exists) return false;
  if (equals !== undefined && !isEqual(found, fill(equals, facts))) return false;
  if (contains !== undefined) {
    const wanted = fill(contains, facts);
    if (wanted === undefined || found === undefined || !textOf(found).includes(textOf(wanted))) return false;
  }
  if (matches !== undefined && (found === undefined || !new RegExp(matches, "u").test(textOf(found))))
    return false;
  if (any && !any.some((each) => holds(each, answer, facts))) return false;
  if (all && !all.every((each) => holds(each, answer, facts))) return false;
  return !not || !holds(not, answer, facts);
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
