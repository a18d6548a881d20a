/**
 * What the answer of a verifying tool must look like. All fields of one condition have to hold; `any`, `all` and `not`
 * combine conditions.
 *
 * Unless `error` is said, a condition holds only for an answer that is no error: "not found" must be asked for by name
 * before it counts as an answer.
 *
 * A placeholder that the call has nothing for, or only blanks, leaves its condition undecided: every text contains the
 * empty one. Undecided is neither true nor false, and `not` does not change that: what says nothing proves nothing,
 * neither that a call has landed nor that it has left no trace.
 */

import * as z from "zod";
import { canonicalJson, type Json } from "../../model/json.ts";
import { badPlaceholder, type CallFacts, fill, isSaid, textOf } from "./template.ts";

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

const EVERY_TEXT = "is empty, and every text has that in it";

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
      contains: templateSchema.pipe(z.string().min(1, EVERY_TEXT)).optional(),
      matches: pattern.min(1, EVERY_TEXT).optional(),
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

/** Undefined where it cannot be told, because the call has nothing to compare the answer with. */
export function holds(condition: Condition, answer: ToolAnswer, facts: CallFacts): boolean | undefined {
  const { error, any, all, not } = condition;
  const isCombined =
    condition.equals === undefined &&
    condition.contains === undefined &&
    condition.matches === undefined &&
    condition.exists === undefined;
  const wantsError = error ?? (isCombined ? undefined : false);
  if (wantsError !== undefined && (answer.isError === true) !== wantsError) return false;
  const parts = own(condition, answer, facts);
  if (any) parts.push(opposite(every(any.map((each) => opposite(holds(each, answer, facts))))));
  if (all) parts.push(...all.map((each) => holds(each, answer, facts)));
  if (not) parts.push(opposite(holds(not, answer, facts)));
  return every(parts);
}

/** What the condition says itself, without those inside it. */
function own(
  { at, equals, contains, matches, exists }: Condition,
  answer: ToolAnswer,
  facts: CallFacts,
): (boolean | undefined)[] {
  const found = at === undefined || at === "" ? answerText(answer) : pointed(answer as unknown as Json, at);
  const parts: (boolean | undefined)[] = [];
  if (exists !== undefined) parts.push((found !== undefined) === exists);
  if (equals !== undefined)
    parts.push(isSaid(equals, facts) ? isEqual(found, fill(equals, facts)) : undefined);
  if (contains !== undefined) {
    const wanted = isSaid(contains, facts) ? textOf(fill(contains, facts)) : undefined;
    parts.push(wanted === undefined ? undefined : found !== undefined && textOf(found).includes(wanted));
  }
  if (matches !== undefined) parts.push(found !== undefined && new RegExp(matches, "u").test(textOf(found)));
  return parts;
}

/** One that is false decides; else one that cannot be told leaves it open. */
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
