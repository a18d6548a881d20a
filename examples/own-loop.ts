/**
 * A custom loop with the same guarantees. Three things make it survive a crash: `append` accepts a message
 * once per id, `unfinished` is the interrupted turn, and `calls` runs only calls without an outcome.
 */

import { type Message, type MessageInput, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

let sent = 0;
const sendMail = tool({
  name: "send_mail",
  description: "Send a mail",
  effect: "mutate",
  input: z.object({ to: z.string() }),
  execute: ({ to }) => {
    sent++;
    return `sent to ${to}`;
  },
});

/** Your model. It is asked only when the last turn is finished. */
async function ask(messages: readonly Message[]): Promise<MessageInput> {
  if (messages.at(-1)?.role === "tool") return { role: "assistant", text: "Ann knows." };
  const call = { kind: "tool_call", id: "c1", name: "send_mail", args: { to: "ann@example.com" } } as const;
  return { role: "assistant", blocks: [call] };
}

const folder = temporaryFolder();

async function program(): Promise<string> {
  const holdfast = await open(folder);
  const session = await holdfast.session("tell-ann");
  await session.append({ id: "task-1", role: "user", text: "Tell Ann that it is ready." });
  for (;;) {
    const last = session.messages.at(-1);
    const answered = last?.role === "assistant" && !session.unfinished;
    const message =
      session.unfinished ?? (answered ? last : await session.append(await ask(session.messages)));
    const { count, done } = await session.calls(message, [sendMail]);
    if (count === 0 || !done) break;
  }
  const report = `${session.messages.length} messages, version ${session.version}, open calls ${session.openCalls.length}`;
  await holdfast.close();
  return report;
}

console.log(`first run:  ${await program()}`);
console.log(`second run: ${await program()}`);

// A call outside of any message is the same call, however often it is made.
const holdfast = await open(folder);
const session = await holdfast.session("tell-bob");
for (const time of ["first", "second"]) {
  const outcome = await session.call({ tool: sendMail, args: { to: "bob@example.com" } });
  console.log(
    `${time} call:  ${outcome.status}${outcome.status === "completed" && outcome.replayed ? ", replayed" : ""}`,
  );
}
await holdfast.close();
console.log(`mails sent: ${sent}`);
