/**
 * A tool that is an agent. Its session is named after the call that started it, so the sub-agent resumes
 * after an interruption instead of starting over. It spends its parent's budget. While it waits for a person,
 * so does its parent. Here the researcher fails in the middle, after it has bought something.
 */

import { agentTool, type Model, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

let searches = 0;
let interrupted = false;

const search = tool({
  name: "search",
  description: "Buy a search of an archive",
  effect: "mutate",
  input: z.object({ words: z.string() }),
  execute: ({ words }) => {
    searches++;
    return `3 articles on ${words}`;
  },
});

/** Asks for one search, then answers with the result. */
const researcher: Model = async ({ messages }) => {
  if (messages.at(-1)?.role !== "tool") {
    const args = { words: "tides" };
    return {
      message: { blocks: [{ kind: "tool_call", id: "s1", name: "search", args }] },
      usage: { usd: 0.1 },
    };
  }
  if (!interrupted) {
    interrupted = true;
    throw new Error("the researcher breaks down");
  }
  return { message: { text: "Tides are well understood." }, usage: { usd: 0.1 } };
};

const research = agentTool({
  name: "research",
  description: "Let a researcher find something out",
  input: z.object({ question: z.string() }),
  budget: { usd: 0.5 },
  run: ({ question }, child) =>
    child.run({ model: researcher, tools: [search], prompt: { id: "question", text: question } }),
});

const editor: Model = async ({ messages }) =>
  messages.at(-1)?.role === "tool"
    ? { message: { text: "The piece on tides is ready." }, usage: { usd: 0.2 } }
    : {
        message: {
          blocks: [
            { kind: "tool_call", id: "r1", name: "research", args: { question: "Do we know tides?" } },
          ],
        },
        usage: { usd: 0.2 },
      };

const holdfast = await open(temporaryFolder());
const session = await holdfast.session("editor");
const result = await session.run({
  model: editor,
  tools: [research],
  prompt: "Write about tides.",
  budget: { usd: 2 },
});
console.log(`${result.status}: ${result.text}`);

const { sessions } = await holdfast.sessions.list();
const names = sessions.map(({ id, status }) => `${id.startsWith("sub-") ? "sub-agent" : id} ${status}`);
console.log(`sessions: ${names.sort().join(", ")}`);
console.log(
  `the sub-agent broke down: ${interrupted}; searches bought: ${searches}; spent by both: $${result.spent.usd}`,
);
await holdfast.close();
