import { randomUUID } from "node:crypto";
import type { Block, Model } from "../../src/index.ts";
import { acknowledge } from "../acks.ts";
import type { AgentConfig } from "../scenario.ts";

/**
 * A model that follows the script. Its position is the number of answers in the transcript. Like a real
 * model it never uses the same call id twice, so a turn that is sampled again shows.
 */
export function scriptedModel(config: AgentConfig, session: string, asked: () => Promise<void>): Model {
  return async ({ messages }) => {
    for (const message of messages) {
      for (const block of message.blocks) {
        if (block.kind !== "tool_result") continue;
        const content = typeof block.content === "string" ? block.content : JSON.stringify(block.content);
        acknowledge(config.dir, { t: "saw", session, callId: block.callId, content });
      }
    }
    await asked();
    const answers = messages.filter((message) => message.role === "assistant").length;
    const calls = config.scenario.turns[answers];
    if (!calls) return { message: { text: `finished after ${answers} turns` }, usage: { tokens: 10 } };
    const blocks = calls.map(({ tool, item, world }, index): Block => {
      const args = { item, ...(world && { world: { ...world } }) };
      return { kind: "tool_call", id: `c${answers}.${index}.${randomUUID().slice(0, 8)}`, name: tool, args };
    });
    return {
      message: { blocks: [{ kind: "text", text: `turn ${answers}` }, ...blocks] },
      usage: { tokens: 10 },
    };
  };
}
