/**
 * Trial 2: a tool that sends a mail, which is a line in a file. The agent sends one. Asked again in the same
 * session, it calls the tool with the same arguments and gets the recorded result instead of a second mail.
 * The model learns that it is a repeat.
 */

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Model, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();
const outbox = join(folder, "outbox");

const sendMail = tool({
  name: "send_mail",
  description: "Send a mail",
  effect: "mutate",
  input: z.object({ to: z.string(), text: z.string() }),
  execute: ({ to, text }) => {
    appendFileSync(outbox, `${to}: ${text}\n`);
    return "sent";
  },
});

/** Sends a mail to the address in the last prompt. Its call ids are new every time, like a provider's. */
const model: Model = async ({ messages }) => {
  const last = messages.at(-1);
  if (last?.role === "tool") return { message: { text: "Done." } };
  const [prompt] = last?.blocks ?? [];
  const to = prompt?.kind === "text" ? (prompt.text.split(" ").at(-1) as string) : "";
  const call = { kind: "tool_call", id: `call-${messages.length}`, name: "send_mail" } as const;
  return { message: { blocks: [{ ...call, args: { to, text: "It is ready." } }] } };
};

for (const prompt of ["Write to ann", "Write once more to ann", "Write to bob"]) {
  const holdfast = await open(folder);
  const session = await holdfast.session("mails");
  const { replayed } = await session.run({ model, tools: [sendMail], prompt });
  const [told] = session.messages.at(-2)?.blocks ?? [];
  const heard = told?.kind === "tool_result" ? String(told.content).replace(/done [^\]]+/, "done …") : "";
  console.log(`${prompt.padEnd(22)} → replayed ${replayed.length}, the model reads: ${heard}`);
  await holdfast.close();
}
console.log(`mails in the outbox: ${readFileSync(outbox, "utf8").trim().split("\n").length}`);
