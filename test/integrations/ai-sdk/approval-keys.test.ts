// Keys of calls that need approval.

import { generateText, stepCountIs, tool } from "ai";
import { expect, test } from "vitest";
import { z } from "zod";
import { answer } from "./paying-model.ts";
import { freshHoldfast, program, says, scripted, toolCall } from "./scripted-world.ts";

test("the key of an unapproved call is computed from the parsed input", async () => {
  const holdfast = await freshHoldfast();
  const charged: string[] = [];
  const charge = tool({
    inputSchema: z.object({ order: z.string().transform((id) => ({ id })) }),
    needsApproval: true,
    execute: ({ order }) => {
      charged.push(order.id);
      return "paid";
    },
  });
  const key = (input: { order: { id: string } }) => input.order.id.toLowerCase();
  const pay = (model: ReturnType<typeof scripted>) =>
    program(holdfast, (d) =>
      generateText({
        model: d.model(model),
        tools: d.tools({ charge }, { charge: { dedupe: { scope: "session", key } } as never }),
        prompt: "Pay",
        stopWhen: stepCountIs(5),
      }),
    );
  const asks = (id: string, order: string) => answer([toolCall(id, "charge", { order })]);
  await expect(pay(scripted(asks("c1", "A")))).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  await holdfast.calls.approve("c1", { by: "ann", why: "fine" });
  expect((await pay(scripted(asks("c2", "a"), says("done")))).text).toBe("done");
  expect(charged).toEqual(["A"]);
});
