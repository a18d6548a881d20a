/**
 * The operator's side: every act here works on a session that another process holds, and takes effect within
 * a second. Each act is recorded with its author.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadConfig, type Model, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();
// A program and the command line find the same store by the same file.
writeFileSync(
  join(folder, "holdfast.config.json"),
  JSON.stringify({ store: "./store.db", retention: "30d" }),
);
const holdfast = await open(await loadConfig(join(folder, "holdfast.config.json")));

// ── A worker whose pager fails in the middle of a call: the outcome is unknown ─────────────────────────────
let pages = 0;
const page = tool({
  name: "page",
  description: "Page a desk",
  effect: "mutate",
  input: z.object({ desk: z.string() }),
  execute: () => {
    pages++;
    if (pages === 1) throw new Error("the line went dead");
    return "paged";
  },
});
const model: Model = async ({ messages, partial }) => {
  partial({ text: "Let me see" });
  const last = messages.at(-1);
  if (last?.role === "tool") return { message: { text: "The desk was paged." }, usage: { usd: 1 } };
  const again = messages.some((message) => message.role === "tool");
  if (again) return { message: { text: "Yes, all is well." }, usage: { usd: 1 } };
  const call = { kind: "tool_call", id: "c1", name: "page", args: { desk: "billing" } } as const;
  return { message: { blocks: [call] }, usage: { usd: 1 } };
};
const worker = await holdfast.session("night-shift", { label: "worker-1", title: "Night shift" });
const run = async () => {
  // External events since the last run: answers, prompts, budgets, a cancellation.
  await worker.refresh();
  return worker.run({ model, tools: [page], budget: { usd: 2 } });
};

await worker.append({ role: "user", text: "Page the desk." });
console.log(`worker: ${(await run()).status}`);

// ── The operator ───────────────────────────────────────────────────────────────────────────────────────────
const desk = await open(folder);
for (const call of (await desk.calls.list()).calls) {
  console.log(`waits for a person: ${call.tool} of ${call.session}, ${call.status}`);
  await desk.calls.resolve(call, { outcome: "retry", by: "Ada", why: "the phone did not ring" });
}
console.log(`worker: ${(await run()).status}, paged ${pages} times`);

await desk.sessions.prompt("night-shift", { id: "q2", text: "Is all well?" }, { by: "Ada" });
console.log(`worker: ${(await run()).reason}`);
await desk.sessions.raiseBudget("night-shift", { usd: 10 }, { by: "Ada" });
const answered = await run();
console.log(`worker: ${answered.status}, ${answered.text}`);

const detail = await desk.sessions.get("night-shift");
console.log(`${detail.id}: ${detail.messages.length} messages, held by ${detail.heldBy?.label}`);
await desk.sessions.deleteVersion("night-shift", 1, { by: "Ada", why: "its label was a mistake" });
// Lets a session continue whose workers kept dying, or whose time to live has passed.
await desk.sessions.retry("night-shift", { by: "Ada", why: "the pager has power again" });
await desk.sessions.cancel("night-shift", { by: "Ada", why: "the shift is over" });
console.log(`worker: ${(await run()).reason}`);
await worker.close();

// ── Approvals ──────────────────────────────────────────────────────────────────────────────────────────────
// A tool with `needsApproval` runs only after a person's word, with the person's arguments if they differ.
const refund = tool({
  name: "refund",
  description: "Refund money",
  effect: "mutate",
  needsApproval: ({ eur }) => eur > 10,
  input: z.object({ eur: z.number() }),
  execute: ({ eur }) => `refunded ${eur}`,
});
const till = await holdfast.session("till");
for (const eur of [80, 90]) {
  const asked = await till.call({ tool: refund, args: { eur }, callId: `refund-${eur}` });
  const named = { session: till.id, callId: asked.callId };
  if (eur === 80) await desk.calls.approve(named, { by: "Ada", args: { eur: 40 }, expiresInMs: 3_600_000 });
  else await desk.calls.deny(named, { by: "Ada", why: "one refund is enough" });
  const answer = await till.call({ tool: refund, args: { eur }, callId: `refund-${eur}` });
  console.log(`${eur}: ${answer.status === "failed" ? answer.error.message : JSON.stringify(answer)}`);
}
await till.close();

await desk.sessions.erase("till");

// ── Keeping the store tidy ─────────────────────────────────────────────────────────────────────────────────
for (const id of ["old-1", "old-2"]) await (await desk.session(id)).close();
await desk.sessions.erase("old-1");
const { sessions } = await desk.sessions.list();
console.log(
  `sessions: ${sessions
    .map(({ id, status }) => `${id} ${status}`)
    .sort()
    .join(", ")}`,
);
const wouldGo = await desk.sessions.prune({ keep: 1, dryRun: true });
console.log(`prune would remove: ${JSON.stringify(wouldGo)}`);
console.log(`problems in ${desk.address.split("/").at(-1)}: ${(await desk.check()).length}`);
await desk.close();
await holdfast.close();
