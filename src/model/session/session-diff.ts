import { canonicalText } from "../json.ts";
import type { Amounts } from "./budget.ts";
import type { Message } from "./message.ts";
import type { Plan, PlanStep } from "./plan.ts";
import type { SessionState } from "./session-state.ts";

/** What a person wants to know of two versions: what was said, planned and spent between them. */
export interface SessionDiff {
  readonly messages: {
    readonly added: readonly Message[];
    readonly removed: readonly Message[];
    /** Same id, other content. */
    readonly changed: readonly { readonly before: Message; readonly after: Message }[];
    readonly same: number;
  };
  readonly plan: {
    readonly before: Plan | null;
    readonly after: Plan | null;
    readonly steps: readonly { readonly before: PlanStep | null; readonly after: PlanStep | null }[];
  };
  readonly budget: {
    readonly spent: { readonly before: Amounts; readonly after: Amounts };
    readonly limit: { readonly before: Amounts; readonly after: Amounts };
  };
}

export function diffSessions(before: SessionState, after: SessionState): SessionDiff {
  return {
    messages: diffMessages(before.messages, after.messages),
    plan: { before: before.plan, after: after.plan, steps: diffSteps(before.plan, after.plan) },
    budget: {
      spent: { before: before.budget.spent, after: after.budget.spent },
      limit: { before: before.budget.limit, after: after.budget.limit },
    },
  };
}

function diffMessages(before: readonly Message[], after: readonly Message[]): SessionDiff["messages"] {
  // A saved transcript may have an id twice: the first of them answers to the first, and so on.
  const old = new Map<string, Message[]>();
  for (const message of before) {
    const known = old.get(message.id);
    if (known) known.push(message);
    else old.set(message.id, [message]);
  }
  const added: Message[] = [];
  const changed: { before: Message; after: Message }[] = [];
  let same = 0;
  for (const message of after) {
    const earlier = old.get(message.id)?.shift();
    if (!earlier) added.push(message);
    else if (canonicalText(earlier) === canonicalText(message)) same++;
    else changed.push({ before: earlier, after: message });
  }
  return { added, removed: [...old.values()].flat(), changed, same };
}

function diffSteps(before: Plan | null, after: Plan | null): SessionDiff["plan"]["steps"] {
  const old = new Map((before?.steps ?? []).map((step) => [step.id, step]));
  const steps: { before: PlanStep | null; after: PlanStep | null }[] = [];
  for (const step of after?.steps ?? []) {
    const earlier = old.get(step.id) ?? null;
    old.delete(step.id);
    if (!earlier || canonicalText(earlier) !== canonicalText(step))
      steps.push({ before: earlier, after: step });
  }
  for (const step of old.values()) steps.push({ before: step, after: null });
  return steps;
}
