import { AsyncLocalStorage } from "node:async_hooks";

/**
 * Which runs the code that asks was called from. A run waits for its tools, and a second run of the same session waits
 * for the first: a tool that waited for such a second run would wait for ever, so that one is refused.
 */

interface RunUnderWay {
  readonly session: object;
  /** The run of another session whose tool began this one. */
  readonly outer: RunUnderWay | undefined;
  /** What a tool leaves running behind may go on after its run. */
  isOver: boolean;
}

const innermost = new AsyncLocalStorage<RunUnderWay>();
let underWay = 0;

export function isWithinRunOf(session: object): boolean {
  for (let run = innermost.getStore(); run; run = run.outer) {
    if (run.session === session && !run.isOver) return true;
  }
  return false;
}

export async function asRunOf<Result>(session: object, work: () => Promise<Result>): Promise<Result> {
  const run: RunUnderWay = { session, outer: innermost.getStore(), isOver: false };
  underWay += 1;
  try {
    return await innermost.run(run, work);
  } finally {
    run.isOver = true;
    underWay -= 1;
    // On Node 20 every promise of the process pays for this, so nobody does while there is no run.
    if (underWay === 0) innermost.disable();
  }
}
