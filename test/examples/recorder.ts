// Loaded before an example: records which public methods it calls, and writes them to a file when the process
// ends.

import { appendFileSync } from "node:fs";
import * as holdfast from "../../src/index.ts";

const file = process.env["HOLDFAST_TEST_RECORD"];
export const called = new Set<string>();

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

/** Classes that users get from methods, but that are not exported as values. */
async function handedOut(): Promise<Record<string, { readonly prototype: object }>> {
  const memory = await holdfast.open("memory:");
  const goal = await memory.goal("recorded", { statement: "Be recorded", tasks: [{ title: "first" }] });
  const claim = await goal.claim("T-001", { by: { name: "recorder", role: "worker" } });
  await memory.close();
  const handed = { OpenCalls: memory.calls, Goals: memory.goals, Goal: goal, Claim: claim };
  return Object.fromEntries(
    Object.entries(handed).map(([name, value]) => [name, { prototype: Object.getPrototypeOf(value) }]),
  );
}

const exported = { ...(holdfast as object), ...(await handedOut()) } as Record<
  string,
  { prototype?: object }
>;
for (const [owner, { prototype }] of Object.entries(exported)) {
  if (prototype !== undefined && !(prototype instanceof Error)) record(owner, prototype);
}
process.on("exit", () => {
  if (file !== undefined) appendFileSync(file, [...called].map((name) => `${name}\n`).join(""));
});
