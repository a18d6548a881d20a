import { expect, test } from "vitest";
import { describeError } from "../../src/model/errors.ts";

const cyclic: Record<string, unknown> = {};
cyclic["self"] = cyclic;

test.each([
  [{ code: "declined" }, '{"code":"declined"}'],
  [{ toString: () => "declined" }, "declined"],
  ["declined", "declined"],
  [undefined, "undefined"],
  [cyclic, "something that has no words"],
])("describes %o", (thrown, message) => {
  expect(describeError(thrown)).toEqual({ message });
});
