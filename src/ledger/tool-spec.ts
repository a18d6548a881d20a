import { HoldfastError } from "../model/errors.ts";
import { checkOption, checkOptions, type OptionRule } from "../model/options.ts";
import { EFFECTS } from "../model/session/index.ts";

const SPEC: Readonly<Record<string, OptionRule>> = {
  name: "text",
  description: "text",
  input: null,
  output: null,
  inputJsonSchema: null,
  effect: EFFECTS,
  dedupe: null,
  idempotent: null,
  timeoutMs: "duration",
  settleMs: "wait",
  interrupted: ["ask", "fail"],
  repeatable: "flag",
  definite: "function",
  execute: "function",
  verify: "function",
};

/**
 * Where there are no types to say so, a slip here is found out when money has gone: what counts as the same payment, what may be
 * repeated, what has to be asked.
 */
export function checkToolSpec(spec: object): void {
  const { name, input, output, effect, execute, dedupe, idempotent } = spec as Record<string, unknown>;
  if (typeof name !== "string" || name === "") {
    throw new HoldfastError("INPUT_INVALID", "a tool has no name", {
      hint: "Pass `name`: the model calls it by that, and its open calls are settled by that.",
    });
  }
  const what = `tool ${name}`;
  checkOptions(what, spec, SPEC);
  checkOption(`${what}: effect`, effect, EFFECTS);
  checkOption(`${what}: execute`, execute, "function");
  mustBeSchema(what, "input", input);
  if (output !== undefined) mustBeSchema(what, "output", output);
  if (dedupe !== undefined) checkDedupe(what, dedupe, effect);
  if (typeof idempotent === "object" && idempotent !== null) {
    checkOptions(`${what}: idempotent`, idempotent, { forMs: "duration" });
    checkOption(`${what}: idempotent.forMs`, (idempotent as { forMs?: unknown }).forMs, "duration");
  } else if (idempotent !== undefined) checkOption(`${what}: idempotent`, idempotent, "flag");
}

/** Of any kind that says so. A JSON Schema is none: the model would be told with every call that the schema threw. */
function mustBeSchema(what: string, name: "input" | "output", schema: unknown): void {
  const isAny = (typeof schema === "object" && schema !== null) || typeof schema === "function";
  const standard = isAny ? (schema as { "~standard"?: { validate?: unknown } })["~standard"] : undefined;
  if (typeof standard?.validate === "function") return;
  const problem = isAny ? "is no Standard Schema" : "is missing";
  throw new HoldfastError("INPUT_INVALID", `${what}: its ${name} schema ${problem}`, {
    hint: `Pass a Standard Schema (zod, valibot, arktype) as \`${name}\`: z.object({}) for nothing. A JSON Schema goes into \`inputJsonSchema\`.`,
  });
}

function checkDedupe(what: string, dedupe: unknown, effect: unknown): void {
  let scope = dedupe;
  if (typeof dedupe === "object" && dedupe !== null) {
    checkOptions(`${what}: dedupe`, dedupe, { scope: null, key: null });
    const { scope: said, key } = dedupe as { scope?: unknown; key?: unknown };
    checkOption(`${what}: dedupe.scope`, said, ["session", "global"]);
    checkOption(`${what}: dedupe.key`, key, "function");
    scope = said;
  } else checkOption(`${what}: dedupe`, dedupe, ["call", "session", "global"]);
  if (effect !== "write" || scope !== "global") return;
  throw new HoldfastError("INPUT_INVALID", `${what}: a write cannot be once ever over all sessions`, {
    hint: 'A write sets a state and may have to be set again. Use effect "mutate", or dedupe "session".',
  });
}
