/** `tools.yaml`: the effect of each proxied tool, and how to verify it. */

import { readFileSync } from "node:fs";
import { parse, YAMLParseError } from "yaml";
import * as z from "zod";
import { HoldfastError } from "../../model/errors.ts";
import { formatPath } from "../../model/json.ts";
import { isSessionId } from "../../model/names.ts";
import { badPlaceholder, conditionSchema, templateSchema } from "./condition.ts";

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const duration = z
  .string()
  .regex(/^\d+(ms|s|m|h|d)$/, "is not a duration: write 500ms, 30s, 5m, 2h or 1d")
  .transform((text) => Number.parseInt(text, 10) * (UNITS[text.replace(/^\d+/, "")] ?? 0));

const keyTemplate = z
  .string()
  .min(1)
  .refine((text) => badPlaceholder(text) === null && text.includes("{{args"), {
    error: "names no argument: write for example order:{{args.orderId}}",
  });

const verify = z.strictObject({
  tool: z.string().min(1),
  args: templateSchema.default({}),
  landed: conditionSchema,
  /** It did not take effect and cannot any more: it is retried at once. */
  never: conditionSchema.optional(),
  /** No trace yet. An answer that fits no condition means the same, unless it is an error. */
  absent: conditionSchema.optional(),
  /** The answer for the agent in place of the lost one. Default: the answer of the verifying tool. */
  result: templateSchema.optional(),
});

export type VerifyRule = z.output<typeof verify>;

const described = z
  .strictObject({
    effect: z.enum(["read", "write", "mutate"]).default("mutate"),
    dedupe: z
      .union([
        z.enum(["delivered", "session", "global"]),
        z.strictObject({ scope: z.enum(["session", "global"]).default("session"), key: keyTemplate }),
      ])
      .default("delivered"),
    idempotent: z.union([z.literal(true), z.strictObject({ for: duration })]).optional(),
    /** The argument in which the tool takes our key. */
    keyArgument: z.string().min(1).optional(),
    timeout: duration.optional(),
    settle: duration.optional(),
    interrupted: z.enum(["ask", "fail"]).default("ask"),
    /** Meaning of `isError`: an ordinary answer, a failure without effect, or an unknown outcome. */
    errors: z.enum(["answer", "failed", "unknown"]).default("answer"),
    /** `pass` forwards a cancellation. `finish` completes the call and keeps its answer for the next. */
    cancel: z.enum(["pass", "finish"]).default("pass"),
    verify: verify.optional(),
  })
  .transform(({ idempotent, timeout, settle, ...rest }) => {
    const repeat = typeof idempotent === "object" ? { forMs: idempotent.for } : idempotent;
    return { ...rest, idempotent: repeat, timeoutMs: timeout, settleMs: settle };
  });

export type ToolRule = Readonly<z.output<typeof described>>;

/** The rule for a tool without one: it counts as mutating. */
const UNDECLARED: ToolRule = described.parse({});

const bare = z.enum(["read", "write", "mutate"]).transform((effect): ToolRule => ({ ...UNDECLARED, effect }));

const REPEAT_WINDOW_MS = 10 * 60_000;
const TASK_AFTER_MS = 2_000;

const config = z.strictObject({
  session: z.string().refine(isSessionId, "is not a session id").optional(),
  /** How long a repeat of a delivered call is pointed out to the agent. */
  repeatWindow: duration.default(REPEAT_WINDOW_MS),
  /** How long a call may take before a client that can take a task gets one instead of the answer. */
  taskAfter: duration.default(TASK_AFTER_MS),
  /** `trust` believes the server's `readOnlyHint` and `idempotentHint` for tools without a rule. */
  annotations: z.enum(["ignore", "trust"]).default("ignore"),
  tools: z.record(z.string().min(1), z.union([bare, described])).default({}),
});

/** Hints of a server about its tool. A server may say anything. */
export interface ToolHints {
  readonly readOnlyHint?: unknown;
  readonly idempotentHint?: unknown;
  /** `required`, `optional` or `forbidden`. */
  readonly taskSupport?: unknown;
}

export class ProxyConfig {
  readonly session: string | undefined;
  readonly repeatWindowMs: number;
  readonly taskAfterMs: number;
  private readonly trustsHints: boolean;
  private readonly rules: ReadonlyMap<string, ToolRule>;

  constructor(said: Partial<z.output<typeof config>> = {}) {
    this.session = said.session;
    this.repeatWindowMs = said.repeatWindow ?? REPEAT_WINDOW_MS;
    this.taskAfterMs = said.taskAfter ?? TASK_AFTER_MS;
    this.trustsHints = said.annotations === "trust";
    this.rules = new Map(Object.entries(said.tools ?? {}));
  }

  /**
   * The rule by name, else by the longest matching pattern with `*`, else `UNDECLARED`. Hints count only for
   * a tool without a rule, and only if the configuration trusts them.
   */
  ruleFor(tool: string, hints?: ToolHints): ToolRule {
    const rule = this.rules.get(tool) ?? this.rules.get(this.patternFor(tool) ?? "");
    if (rule || !this.trustsHints) return rule ?? UNDECLARED;
    if (hints?.readOnlyHint === true) return { ...UNDECLARED, effect: "read" };
    return hints?.idempotentHint === true ? { ...UNDECLARED, idempotent: true } : UNDECLARED;
  }

  /** The pattern that decides about a tool; null if its name or nothing does. */
  patternFor(tool: string): string | null {
    if (this.rules.has(tool)) return null;
    const fitting = [...this.rules.keys()].filter((name) => name.includes("*") && fits(name, tool));
    return fitting.sort((a, b) => b.length - a.length)[0] ?? null;
  }

  entries(): readonly (readonly [string, ToolRule])[] {
    return [...this.rules];
  }
}

/** Takes each part at its first place, which needs no going back, however the tool is named. */
function fits(pattern: string, tool: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop() ?? "";
  if (!tool.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = tool.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return tool.length - last.length >= at && tool.endsWith(last);
}

export function readProxyConfig(file: string): ProxyConfig {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw refusal(file, "", `cannot be read (${code})`, "Pass its path: --config tools.yaml");
  }
  return parseProxyConfig(text, file);
}

function parseProxyConfig(text: string, file: string): ProxyConfig {
  let value: unknown;
  try {
    value = parse(text) ?? {};
  } catch (error) {
    if (!(error instanceof YAMLParseError)) throw error;
    throw refusal(file, "", error.message.split("\n")[0] ?? "is not YAML");
  }
  const read = config.safeParse(value);
  if (!read.success) {
    const [issue] = deepest(read.error.issues);
    throw refusal(file, formatPath(issue?.path ?? []), issue?.message ?? "is not valid");
  }
  const parsed = new ProxyConfig(read.data);
  for (const [name, rule] of parsed.entries()) checkRule(file, parsed, name, rule);
  return parsed;
}

type Issue = z.core.$ZodIssue;

/** For a union, the issue of the alternative that matched furthest: most likely the one that was meant. */
function deepest(
  issues: readonly Issue[],
  path: readonly PropertyKey[] = [],
): { path: PropertyKey[]; message: string }[] {
  return issues
    .flatMap((issue) => {
      const here = [...path, ...issue.path];
      if (issue.code !== "invalid_union" || issue.errors.length === 0)
        return [{ path: here, message: issue.message }];
      return issue.errors.flatMap((each) => deepest(each, here));
    })
    .sort((a, b) => b.path.length - a.path.length);
}

function checkRule(file: string, parsed: ProxyConfig, name: string, rule: ToolRule): void {
  const refuse = (field: string, what: string): never => {
    throw refusal(file, formatPath(["tools", name, ...field.split(".")]), what);
  };
  if (rule.effect === "read") {
    const what = "is not for a read, which has no effect and simply runs again";
    for (const field of ["verify", "idempotent", "keyArgument", "settleMs"] as const)
      if (rule[field] !== undefined) refuse(field.replace("Ms", ""), what);
    if (rule.dedupe !== "delivered") refuse("dedupe", what);
  }
  const scope = typeof rule.dedupe === "object" ? rule.dedupe.scope : rule.dedupe;
  if (rule.effect === "write" && scope === "global")
    refuse("dedupe", "a write cannot be deduplicated across all sessions");
  if (rule.keyArgument !== undefined && rule.idempotent === undefined)
    refuse("keyArgument", "needs idempotent: true, or idempotent: { for: 24h }");
  if (!rule.verify) return;
  const { tool } = rule.verify;
  if (parsed.ruleFor(tool).effect !== "read")
    refuse("verify.tool", `${tool} is not declared as read, and verification must have no effect`);
}

function refusal(file: string, path: string, what: string, hint?: string): HoldfastError {
  const place = path === "" || path === "(root)" ? "" : `${path}: `;
  return new HoldfastError("INPUT_INVALID", `${file}: ${place}${what}`, {
    hint:
      hint ??
      "Nothing was started. Correct that line; docs/guides/mcp-proxy.md has an example of each field.",
    data: { file, path },
  });
}
