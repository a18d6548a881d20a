import { canonicalText } from "../model/json.ts";
import { type Message, toolCalls } from "../model/session/index.ts";

/**
 * How often the latest call was made in a row with the same arguments, counted from the durable transcript, so that
 * a restart does not make an agent forget that it is going in circles.
 */
export function repeatedCalls(messages: readonly Message[]): { tool: string; count: number } {
  let name = "";
  let same = "";
  let count = 0;
  for (let index = messages.length - 1; index >= 0; index--) {
    const message = messages[index] as Message;
    if (message.role === "tool" || message.meta?.["holdfast"] === "loop") continue;
    const calls = message.role === "assistant" ? toolCalls(message) : [];
    if (calls.length === 0) break;
    const asked = canonicalText(calls.map((call) => [call.name, call.args]));
    if (count === 0) {
      same = asked;
      name = calls.map((call) => call.name).join(" + ");
    }
    if (asked !== same) break;
    count++;
  }
  return { tool: name, count };
}
