/** A session's data beside its messages: a description, a plan, a budget, and how it ended. */

import { isHoldfastError, open, type Plan, withSession } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();
const plan: Plan = {
  title: "Ship it",
  steps: [
    {
      id: "1",
      description: "Write it",
      status: "done",
      postconditions: ["tests pass"],
      evidence: ["42 passed"],
    },
    { id: "2", description: "Ship it", status: "pending", postconditions: ["it is live"], evidence: [] },
  ],
};

let holdfast = await open(folder);
let session = await holdfast.session("release", { title: "Release", scratchpadRoot: "scratch", ttlMs: null });
await session.describe({ title: "Release 2", metadata: { ticket: "R-2" } });
await session.setPlan(plan);
await session.limit({ usd: 5 });
await session.spend({ usd: 1.25, tokens: 9_000 });
await session.complete("it is live");
await holdfast.close();

// Another process, another day.
holdfast = await open(folder);
session = await holdfast.session("release", { label: "desk" });
const { title, metadata, status, budget } = session;
console.log(`${title} ${JSON.stringify(metadata)}: ${status}, next ${session.plan?.steps[1]?.description}`);
console.log(
  `spent $${budget.spent.usd} of $${budget.limit.usd}; resumed version ${session.resumed?.version}`,
);

await session.reopen();
await session.fail("it is down");
await session.reopen();
await session.cancel("nobody wants it");
console.log(`now ${session.status}`);
try {
  await session.append({ role: "user", text: "Go on." });
} catch (error) {
  if (!isHoldfastError(error, "SESSION_ENDED")) throw error;
  console.log(`${error.message}. ${error.hint}`);
}
await session.close();

// A handle locks its session. Others get an error that names the holder.
const first = await holdfast.session("held", { label: "first" });
const refused = await holdfast.session("held", { ifHeld: "throw" }).catch((error: Error) => error);
console.log(refused instanceof Error ? refused.message.replace(/ \(.*\)/, "") : "");
await first.close();
const lentStatus = await withSession(holdfast, "route", {}, async (lent) => {
  await lent.append({ role: "user", text: "hello" });
  return lent.status;
});
console.log(`lent for one request: ${lentStatus}`);
const model = async () => ({ message: { text: "On its way." } });
const { text } = await holdfast.run("chat", { model, prompt: "Where is my order?" });
console.log(`answered in one request: ${text}`);
await holdfast.close();
