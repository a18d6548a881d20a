// Loaded before an example: writes down which public methods it calls.

import { appendFileSync } from "node:fs";
import * as holdfast from "../../src/index.ts";

const file = process.env["HOLDFAST_TEST_RECORD"] as string;
const called = new Set<string>();

function record(owner: string, prototype: object): void {
  for (let each = prototype; each !== Object.prototype; each = Object.getPrototypeOf(each)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each))) {
      if (typeof value !== "function" || name === "constructor") continue;
      Object.defineProperty(each, name, {
        writable: true,
        configurable: true,
        value(this: unknown, ...args: unknown[]) {
          called.add(`${owner}.${name}`);
          return (value as (...args: unknown[]) => unknown).apply(this, args);
        },
      });
    }
  }
}

const memory = await holdfast.open("memory:");
for (const [owner, { prototype }] of Object.entries({
  ...holdfast,
  CallDesk: memory.calls.constructor,
} as object)) {
  if (prototype !== undefined && !(prototype instanceof Error)) record(owner, prototype);
}
await memory.close();
called.clear();
process.on("exit", () => appendFileSync(file, [...called].map((name) => `${name}\n`).join("")));
