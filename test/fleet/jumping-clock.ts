/**
 * A wall clock that is set again and again. Time that cannot be set, such as `performance.now()`, is left
 * alone: no operating system moves it.
 */

const TrueDate = Date;
let offset = 0;

class JumpingDate extends TrueDate {
  constructor(...args: unknown[]) {
    if (args.length === 0) super(JumpingDate.now());
    else super(...(args as [number]));
  }

  static override now(): number {
    return TrueDate.now() + offset;
  }
}

globalThis.Date = JumpingDate as DateConstructor;

/** Ahead by `ms`, back by `ms`, right again, in turn. */
export function jump(ms: number): void {
  offset = offset === 0 ? ms : offset > 0 ? -ms : 0;
}
