/**
 * What an operation is: a named act with a schema for what goes in and one for what comes out. The command line, the MCP
 * server and whatever comes later read the same table, call `perform`, and print; none of them has rules of its own.
 */

import type * as z from "zod";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { formatPath } from "../model/json.ts";
import type { Caller, Context } from "./context.ts";

export interface Operation<Input extends z.ZodType = z.ZodType, Result extends z.ZodType = z.ZodType> {
  /** As it is typed: `task claim`. */
  readonly name: string;
  /** One line for help texts and tool lists. */
  readonly about: string;
  /** What is for a person is not offered to agents: it answers for the world, or removes what happened. */
  readonly who: Caller | "both";
  /** Whether it changes anything. */
  readonly writes: boolean;
  readonly input: Input;
  readonly result: Result;
  run(context: Context, input: z.output<Input>): Promise<z.input<Result>>;
}

/** Ties the schemas to the function, so that a row of the table reads as one thing. */
export function operation<const Name extends string, Input extends z.ZodType, Result extends z.ZodType>(
  spec: Operation<Input, Result> & { readonly name: Name },
): Operation<Input, Result> & { readonly name: Name } {
  return spec;
}

/** Checks who calls and what they say, then does it. */
export async function perform(each: Operation, context: Context, input: unknown): Promise<unknown> {
  if (each.who !== "both" && each.who !== context.caller) {
    throw new HoldfastError("ROLE_REFUSED", `${each.name} is not for ${context.caller}s`, {
      hint: `Leave it to ${each.who === "person" ? "a person" : "an agent"}.`,
      data: { operation: each.name },
    });
  }
  const blank = each.writes ? blankField(each.input, input) : null;
  if (blank !== null) throw saysNothing(each.name, blank);
  const parsed = each.input.safeParse(input);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const path = formatPath(issue?.path ?? []);
    throw new HoldfastError("INPUT_INVALID", `${each.name}: ${path}: ${issue?.message}`, {
      hint: "Nothing was done. Correct that value and try again.",
      data: { operation: each.name, path },
    });
  }
  try {
    const result = await each.run(context, parsed.data);
    // What was written was written to a store that is where it always was.
    if (!each.writes) await context.warnIfMoved();
    return result;
  } catch (error) {
    // What is not there may be in the store that this one moved to; whoever writes is told so by the store itself.
    if (!isSaidOfSeal(error)) await context.warnIfMoved();
    throw inWords(each.name, forCaller(each.name, context, context.explainReadOnly(error)));
  }
}

/** Whether the error itself says where everything went, or which copy is not finished. */
function isSaidOfSeal(error: unknown): boolean {
  return isHoldfastError(error, "STORE_MOVED") || (isHoldfastError(error) && "moved" in error.data);
}

/** An agent has the role that its server was started in: it cannot put on another, but can say who could. */
function forCaller(name: string, { caller, by }: Context, error: unknown): unknown {
  if (caller !== "agent" || !isHoldfastError(error, "ROLE_REFUSED")) return error;
  const { allowed = [] } = error.data as { allowed?: readonly string[] };
  const agents = allowed.filter((role) => role !== "human" && role !== "supervisor");
  const person = `Ask a person, who can do it: holdfast ${name}.`;
  const others = agents.includes(by.role)
    ? `Or leave it to another agent in one of these roles: ${agents.join(", ")}.`
    : `Or let this server be started in a role that may: holdfast mcp --role ${agents.join(" | ")}`;
  const hint = agents.length === 0 ? person : `${person} ${others}`;
  return new HoldfastError(error.code, error.message, { hint, cause: error, data: error.data });
}

/** The first text that has to say something and does not: one that is required, or one of a list. */
function blankField(schema: z.ZodType, input: unknown): string | null {
  const isBlank = (value: unknown): boolean => typeof value === "string" && value.trim() === "";
  const fields = Object.entries((schema as Partial<z.ZodObject>).shape ?? {});
  for (const [name, field] of fields) {
    const value = (input as Readonly<Record<string, unknown>> | undefined)?.[name];
    if (field._zod.def.type === "string" && isBlank(value)) return name;
    const at = Array.isArray(value) ? value.findIndex(isBlank) : -1;
    if (at >= 0) return `${name}[${at}]`;
  }
  return null;
}

function saysNothing(operation: string, path: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${operation}: ${path} says nothing`, {
    hint: "Nothing was done. Say something there, or leave it out where it may be left out.",
    data: { operation, path },
  });
}

/** A text that may be left out, but not be empty, is refused where the event is made, in a schema's words. */
function inWords(operation: string, error: unknown): unknown {
  if (!isHoldfastError(error, "INPUT_INVALID")) return error;
  const { path, issues } = error.data as { path?: string; issues?: readonly z.core.$ZodIssue[] };
  const issue = issues?.[0];
  const isBlank = issue?.code === "too_small" && issue.origin === "string";
  return isBlank && path ? saysNothing(operation, path.replace("$.", "")) : error;
}

type Given<Value> = { [Key in keyof Value]: Exclude<Value[Key], undefined> };

/** Without the fields that were not given: absent and undefined are different things to the library. */
export function definedFields<Value extends object>(value: Value): Given<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Given<Value>;
}
