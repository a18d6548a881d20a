// Names that a fragment in the documentation may use without declaring them. They stand for the reader's own
// program: a model, a payment provider, an open store.

import type { Goal, Holdfast, Model, Session, Tool } from "../../src/index.ts";

declare global {
  const holdfast: Holdfast;
  const session: Session;
  const goal: Goal;
  const model: Model;
  const tools: readonly Tool[];
  const charge: Tool;
  const signal: AbortSignal;
  const payments: {
    charge(orderId: string, options: { idempotencyKey: string }): Promise<{ id: string }>;
    create(args: object, options: { idempotencyKey: string; metadata?: object }): Promise<{ id: string }>;
    find(key: string): Promise<{ id: string } | null>;
  };
}
