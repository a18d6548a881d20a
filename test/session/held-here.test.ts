/** Who holds a session is said as it is, also where it is the process that asks. */

import { expect, test } from "vitest";
import { open } from "../../src/index.ts";

test("a session that this process has open already is said to be open here, not to be stopped elsewhere", async () => {
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  await expect(holdfast.session("s", { ifHeld: "throw" })).rejects.toMatchObject({
    code: "SESSION_HELD",
    message: expect.stringContaining("which is this very process"),
    hint: expect.stringContaining("close that first"),
  });
  await session.close();
  await (await holdfast.session("s", { ifHeld: "throw" })).close();
  await holdfast.close();
});
