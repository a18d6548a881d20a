import type { EventSchema } from "./event.ts";

/** What a schema accepts. */
export type DataOf<Schema> = Schema extends EventSchema<infer Data> ? Data : never;

/**
 * A schema that is made when it is first asked. Our own tables have some seventy, of which a program needs a few: to make all of
 * them would take it longer than to open a store.
 */
export function lazySchema<Data>(make: () => EventSchema<Data>): EventSchema<Data> {
  let made: EventSchema<Data> | undefined;
  return {
    safeParse(value) {
      made ??= make();
      return made.safeParse(value);
    },
  };
}
