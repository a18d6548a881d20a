import { NeedsApproval, NotFinished, type Tool } from "./tool.ts";

/**
 * A throw is not a failure. Once `execute` has started, an error means that the outcome is unknown, unless nothing
 * can have happened. For certain that is so when the tool says it. It is presumed where the connection was refused, the name was
 * not found, or the other side answered with a 4xx: true of a tool that asks one thing of one service, and not of one that
 * asked twice and shows only the last answer. So what is presumed can be denied by the tool (`definite`), is looked into by its
 * `verify` first, and leaves the vendor's key as it is: asked again, a vendor that did get the first request knows it. A 408 or
 * 409 answers nothing: the first attempt may be the one that is in the way.
 */
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]);
const UNDECIDED_STATUS = new Set([408, 409]);

/** How sure it is that nothing has happened. */
export function nothingHappened(error: unknown, tool: Tool): "surely" | "presumably" | "unknown" {
  if (surely(() => chain(error).some(isDefiniteFailure))) return "surely";
  let said: boolean | undefined;
  surely(() => {
    said = tool.definite?.(error);
    return true;
  });
  if (typeof said === "boolean") return said ? "surely" : "unknown";
  const isPresumed = surely(() => chain(error).some((each) => neverSent(each) || refused(each)));
  return isPresumed ? "presumably" : "unknown";
}

export function isNotFinished(error: unknown): error is NotFinished {
  return surely(() => error instanceof NotFinished);
}

export function isNeedsApproval(error: unknown): boolean {
  return surely(() => error instanceof NeedsApproval);
}

/** Looking at what was thrown may throw, too: then it has said nothing, and the outcome stays unknown. */
function surely(look: () => boolean): boolean {
  try {
    return look();
  } catch {
    // The error was not of the shape that was expected; unknown is the safe reading.
    return false;
  }
}

function isDefiniteFailure(error: object): boolean {
  return error instanceof Error && error.name === "DefiniteFailure";
}

/** Connecting to several addresses gives one error for each; all of them must have failed before sending. */
function neverSent(error: object): boolean {
  const { code, errors } = error as { code?: unknown; errors?: unknown };
  if (Array.isArray(errors) && errors.length > 0) {
    return errors.every((each) => typeof each === "object" && each !== null && neverSent(each));
  }
  return typeof code === "string" && NEVER_SENT.has(code);
}

function refused(error: object): boolean {
  const { status, statusCode, response } = error as {
    status?: unknown;
    statusCode?: unknown;
    response?: { status?: unknown };
  };
  const found = [status, statusCode, response?.status].find((each) => typeof each === "number");
  return typeof found === "number" && found >= 400 && found < 500 && !UNDECIDED_STATUS.has(found);
}

/** The error and what caused it; `fetch` hides the interesting one two levels down. */
function chain(error: unknown): object[] {
  const found: object[] = [];
  let each: unknown = error;
  while (typeof each === "object" && each !== null && !found.includes(each)) {
    found.push(each);
    each = (each as { cause?: unknown }).cause;
  }
  return found;
}
