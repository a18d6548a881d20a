/**
 * Calls of which the SDK would tell the model something that is not so. Whatever a tool throws, the SDK tells the model as
 * "the tool failed", and the model does it again in other words. But a call that is in the ledger has happened, or may have:
 * when something throws after that (the store does not answer while the results are written, say), the question that
 * would say so is refused with that error, and the run ends. Run again, it goes on with what is on record.
 *
 *     call throws, and it is in the ledger ──▶ misreported ──question with its result──▶ refused, with what was thrown
 *                                                          ──run again, and it throws nothing──▶ forgotten
 *                                                          ──d.messages, which tells it from the record──▶ forgotten
 */

import { sessionCore } from "../../session/index.ts";
import type { RecordedTurns } from "../recorded-turns/index.ts";
import type { CallOptions } from "./language-model.ts";

export class MisreportedCalls {
  private readonly turns: RecordedTurns;
  private readonly thrown = new Map<string, unknown>();

  constructor(turns: RecordedTurns) {
    this.turns = turns;
  }

  /** Runs a call and remembers what it throws, if by then it has left something on record. */
  async watch<Outcome>(callId: string, isRead: boolean, run: () => Promise<Outcome>): Promise<Outcome> {
    this.thrown.delete(callId);
    try {
      return await run();
    } catch (error) {
      if (this.isOnRecord(callId, isRead)) this.thrown.set(callId, error);
      throw error;
    }
  }

  /** What is to be thrown instead of asking this, or null. */
  refusal(prompt: CallOptions["prompt"]): { readonly error: unknown } | null {
    if (this.thrown.size === 0) return null;
    for (const { role, content } of prompt) {
      if (role !== "tool") continue;
      for (const part of content)
        if (part.type === "tool-result" && this.thrown.has(part.toolCallId))
          return { error: this.thrown.get(part.toolCallId) };
    }
    return null;
  }

  forget(): void {
    this.thrown.clear();
  }

  /** A read is not in the ledger; what it throws by itself is its result, so this was thrown around it. */
  private isOnRecord(callId: string, isRead: boolean): boolean {
    const { calls, callSlots } = sessionCore(this.turns.session).state;
    return calls.has(callId) || (isRead && callSlots.has(callId));
  }
}
