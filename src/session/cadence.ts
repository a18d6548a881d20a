import type { SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { checkpointDraft } from "./versions.ts";

/**
 * When a version gets its number. Nothing depends on it for safety: every message and every call is durable anyway;
 * a checkpoint is a place to come back to, compare with and fork from.
 */
export type CadenceOption = "turn" | "call" | { readonly turns: number } | { readonly seconds: number };

export class Cadence {
  private readonly option: CadenceOption;
  private readonly now: () => number;

  constructor(option: CadenceOption, now: () => number) {
    this.option = option;
    this.now = now;
  }

  /** `unseen`: answers of the model that are part of the same commit and not in the state yet. */
  afterTurn(state: SessionState, unseen: 0 | 1 = 0): readonly Draft[] {
    return this.isDue(state, unseen) ? [checkpointDraft(state, true)] : [];
  }

  afterCall(state: SessionState): readonly Draft[] {
    return this.option === "call" ? [checkpointDraft(state, true)] : [];
  }

  private isDue(state: SessionState, unseen: number): boolean {
    if (this.option === "turn" || this.option === "call") return true;
    const last = state.checkpoints.get(state.version);
    if ("seconds" in this.option) return !last || this.now() - last.at >= this.option.seconds * 1000;
    const turns = state.messages.filter((message) => message.role === "assistant").length;
    return (turns + unseen) % this.option.turns === 0;
  }
}
