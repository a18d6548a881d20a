import { describeError } from "./error-text.ts";

/**
 * The common interface of zod, valibot, arktype and others (standardschema.dev), as far as we use it: any of
 * them can describe a tool's input and output.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type OutputOf<Schema> = Schema extends StandardSchema<infer _Input, infer Output> ? Output : never;

type Checked<Output> = { value: Output } | { problem: string };

/**
 * The value as the schema understands it, or the first problems in words. A schema that throws does not accept it. Not a
 * promise where the schema answers at once, as most do.
 */
export function validate<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
): Checked<Output> | Promise<Checked<Output>> {
  try {
    const result = schema["~standard"].validate(value);
    return isAnswer(result) ? read(result) : Promise.resolve(result).then(read).catch(thrown);
  } catch (error) {
    return thrown(error);
  }
}

/** By a transform that chokes on the value, most often: JSON.parse, new URL. */
function thrown(error: unknown): { problem: string } {
  return { problem: `the schema threw: ${describeError(error).message}` };
}

function isAnswer<Output>(
  result: Validated<Output> | Promise<Validated<Output>>,
): result is Validated<Output> {
  return !("then" in result);
}

function read<Output>(result: Validated<Output>): Checked<Output> {
  if (!result.issues) return { value: result.value };
  const problems = result.issues.slice(0, 5).map((issue) => {
    const path = (issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return path.length === 0 ? issue.message : `${path.map(String).join(".")}: ${issue.message}`;
  });
  return { problem: problems.join("; ") };
}
