/**
 * What is there already, or will be. Between a commit and whoever waits for it each promise costs one to three microseconds, so on
 * the way of every append what is ready is not awaited. One that fails is always a promise, so that nobody has to look in two places.
 */
export type MaybePromise<Value> = Value | Promise<Value>;

/** Goes on with it: at once, where it is there. */
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
