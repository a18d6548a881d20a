/** A phase is meant by its name, so a goal has each name once. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../src/index.ts";

let holdfast: Holdfast;
beforeEach(async () => {
  holdfast = await open("memory:");
});
afterEach(() => holdfast.close());

test("a second phase of the same name is refused, in whichever case, and nothing is written", async () => {
  const goal = await holdfast.goal("shop", { statement: "Ship the shop", phases: ["Schema"] });
  expect(await goal.addPhase({ name: "API" })).toBe(2);
  const { seq } = goal;
  for (const name of ["API", "api", "schema"]) {
    await expect(goal.addPhase({ name })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining(
        `goal shop already has a phase "${name === "schema" ? "Schema" : "API"}"`,
      ),
      hint: expect.stringContaining("name of its own"),
    });
  }
  expect(goal.seq).toBe(seq);
  expect(goal.state.phases.map(({ name }) => name)).toEqual(["Schema", "API"]);
});
