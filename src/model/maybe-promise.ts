/**
 * A value, or a promise of it. Each promise between a commit and its caller costs one to three microseconds,
 * so the path of every append does not wait for a value that is there (decision 019). A failure is always a
 * rejected promise, never a throw, so callers handle errors in one place.
 */
export type MaybePromise<Value> = Value | Promise<Value>;

/** `value.then(next)`, but without a promise if the value is there. */
export function andThen<Value, Next>(
  value: MaybePromise<Value>,
  next: (value: Value) => MaybePromise<Next>,
): MaybePromise<Next> {
  if (value instanceof Promise) return value.then(next);
  try {
    return next(value);
  } catch (error) {
    return Promise.reject(error);
  }
}
