// Names that a fragment in the documentation may use without declaring them. They stand for the reader's own
// program: a model, a payment provider, an open store, a graph.

import type { ServerResponse } from "node:http";
import type { StateGraph } from "@langchain/langgraph";
import type { Goal, Holdfast, Message, Model, Session, Tool } from "../../src/index.ts";
import type { Durable } from "../../src/integrations/ai-sdk/index.ts";
import type { HoldfastSaver } from "../../src/integrations/langgraph/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: the reader's own values, of any type
type Own = any;

declare global {
  const holdfast: Holdfast;
  const session: Session;
  const goal: Goal;
  const model: Model;
  const tools: readonly Tool[];
  const charge: Own;
  const signal: AbortSignal;
  const messages: readonly Message[];
  const d: Durable;
  const saver: HoldfastSaver;
  const builder: StateGraph<Own, Own, Own, Own>;
  const graph: Own;
  const res: ServerResponse;
  const payments: {
    charge(orderId: string, options: { idempotencyKey: string }): Promise<{ id: string }>;
    create(args: object, options: { idempotencyKey: string; metadata?: object }): Promise<{ id: string }>;
    find(key: string): Promise<{ id: string } | null>;
  };
  const carrier: { book(order: string, options: { idempotencyKey: string }): Promise<string> };
  const mail: { send(to: string): Promise<string> };
  const callId: string;
  const id: string;
  const text: string;
  const folder: Own;
  const result: Own;
  const prices: Own;
  const store: Own;
  const older: Own;
  const prompt: Own;
  const input: Own;
  const client: Own;
  const find: Own;
  const verify: Own;
  const description: string;
  const parameters: Own;
  const execute: Own;
}
