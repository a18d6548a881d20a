/**
 * An operation is a named act with a schema for its input and one for its result. The command line and the
 * MCP server read the same table, call `perform` and print; neither has rules of its own.
 */

import type * as z from "zod";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { formatPath } from "../model/json.ts";
import type { Caller, Context } from "./context.ts";

export interface Operation<Input extends z.ZodType = z.ZodType, Result extends z.ZodType = z.ZodType> {
  readonly name: string;
  readonly about: string;
  /** Agents are not offered a person's operations: those vouch for the outside world, or remove history. */
  readonly who: Caller | "both";
  readonly writes: boolean;
  /**
   * Whether the act, with this input, vouches for the outside world, lifts a limit or removes history. Such
   * an act is a person's own: it is refused where an agent runs the command line.
   */
  readonly vouches?: true | ((input: z.output<Input>) => boolean);
  readonly input: Input;
  readonly result: Result;
  run(context: Context, input: z.output<Input>): Promise<z.input<Result>>;
}

type Named<Name, Input extends z.ZodType, Result extends z.ZodType> = Operation<Input, Result> & {
  readonly name: Name;
};
type Spec<Input extends z.ZodType, Result extends z.ZodType> = Pick<
  Operation<Input, Result>,
  "input" | "result" | "run" | "vouches"
> & { readonly who?: Caller };

type Declare = <const Name extends string, Input extends z.ZodType, Result extends z.ZodType>(
  name: Name,
  about: string,
  spec: Spec<Input, Result>,
) => Named<Name, Input, Result>;

export const query: Declare = (name, about, spec) => ({ name, about, who: "both", writes: false, ...spec });
export const mutation: Declare = (name, about, spec) => ({ name, about, who: "both", writes: true, ...spec });

export async function perform(each: Operation, context: Context, input: unknown): Promise<unknown> {
  if (each.who !== "both" && each.who !== context.caller) {
    throw new HoldfastError("ROLE_REFUSED", `${each.name}: not allowed for ${context.caller}s`, {
      hint: `Leave it to ${each.who === "person" ? "a person" : "an agent"}.`,
      data: { operation: each.name },
    });
  }
  const blank = each.writes ? blankField(each.input, input) : null;
  if (blank !== null) throw emptyText(each.name, blank);
  const parsed = each.input.safeParse(input);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const path = formatPath(issue?.path ?? []);
    throw new HoldfastError("INPUT_INVALID", `${each.name}: ${path}: ${issue?.message}`, {
      hint: "Nothing was changed. Correct that value and try again.",
      data: { operation: each.name, path },
    });
  }
  refuseAgent(each, context, parsed.data);
  try {
    const result = await each.run(context, parsed.data);
    // A successful write proves that the store has not moved.
    if (each.writes) context.noteClaims();
    else await context.warnIfMoved();
    return result;
  } catch (error) {
    // A missing item may be in the store that this one moved to. A refused write says so itself.
    if (!mentionsSeal(context.explainReadOnly(error))) await context.warnIfMoved();
    throw explainEmptyText(each.name, explainRole(each.name, context, context.explainReadOnly(error)));
  }
}

function refuseAgent({ name, vouches }: Operation, { agent }: Context, input: unknown): void {
  if (agent === null || vouches === undefined || (vouches !== true && !vouches(input))) return;
  throw new HoldfastError("ROLE_REFUSED", `${name}: for people, but an agent runs it: ${agent}`, {
    hint: `Ask a person to run holdfast ${name} in a terminal of their own. Nothing was changed.`,
    data: { operation: name, agent },
  });
}

function mentionsSeal(error: unknown): boolean {
  if (isHoldfastError(error, "STORE_REWOUND")) return true;
  return isHoldfastError(error, "STORE_MOVED") || (isHoldfastError(error) && "moved" in error.data);
}

/** An agent cannot change the role that its server was started with, so the hint names who has it. */
function explainRole(name: string, { caller, by }: Context, error: unknown): unknown {
  if (caller !== "agent" || !isHoldfastError(error, "ROLE_REFUSED")) return error;
  const { allowed = [] } = error.data as { allowed?: readonly string[] };
  const agents = allowed.filter((role) => role !== "human" && role !== "supervisor");
  const person = `Ask a person to run: holdfast ${name}.`;
  const others = agents.includes(by.role)
    ? `Or leave it to another agent with one of these roles: ${agents.join(", ")}.`
    : `Or start this server with a role that may: holdfast mcp --role ${agents.join(" | ")}`;
  const hint = agents.length === 0 ? person : `${person} ${others}`;
  return new HoldfastError(error.code, error.message, { hint, cause: error, data: error.data });
}

/** The first required text, or text in a list, that is empty or blank. */
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

function emptyText(operation: string, path: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${operation}: ${path} is empty`, {
    hint: "Nothing was changed. Write a text, or leave the field out if it is optional.",
    data: { operation, path },
  });
}

/** An empty optional text is refused later, by the event's schema; this gives it the same message. */
function explainEmptyText(operation: string, error: unknown): unknown {
  if (!isHoldfastError(error, "INPUT_INVALID")) return error;
  const { path, issues } = error.data as { path?: string; issues?: readonly z.core.$ZodIssue[] };
  const issue = issues?.[0];
  const isBlank = issue?.code === "too_small" && issue.origin === "string";
  return isBlank && path ? emptyText(operation, path.replace("$.", "")) : error;
}

type Defined<Value> = { [Key in keyof Value]: Exclude<Value[Key], undefined> };

/** Drops undefined fields: the library distinguishes absent from undefined. */
export function definedFields<Value extends object>(value: Value): Defined<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Defined<Value>;
}
