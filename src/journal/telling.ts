/** Whoever watches must not stop what is watched, nor end the process: what goes wrong there, now or later, is a warning. */
export function emitSafely(tell: () => unknown, warn: (error: unknown) => void): void {
  try {
    const told = tell();
    if (told instanceof Promise) told.catch(warn);
  } catch (error) {
    warn(error);
  }
}
