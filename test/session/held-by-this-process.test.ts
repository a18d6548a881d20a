/** SESSION_HELD says so if the holder is this very process. */

import { expect, test } from "vitest";
import { open } from "../../src/index.ts";

test("a session that this process holds is reported as held here", async () => {
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
