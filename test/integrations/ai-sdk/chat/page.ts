// A page without a browser: the SDK's own chat over our transport, and a model that speaks when it is told.

import type { LanguageModelV3StreamPart } from "@ai-sdk/provider";
import { AbstractChat, type ChatInit, type ChatState, type UIMessage } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { DurableChatTransport } from "../../../../src/integrations/chat-transport/index.ts";
import { answer } from "../paying-model.ts";

class PageState implements ChatState<UIMessage> {
  status: ChatState<UIMessage>["status"] = "ready";
  error: Error | undefined = undefined;
  messages: UIMessage[];

  constructor(messages: UIMessage[]) {
    this.messages = messages;
  }

  pushMessage = (message: UIMessage): void => {
    this.messages = [...this.messages, structuredClone(message)];
  };
  popMessage = (): void => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
  snapshot = <Value>(value: Value): Value => structuredClone(value);
}

/** `useChat` without React. */
export class Page extends AbstractChat<UIMessage> {
  constructor({ messages = [], ...init }: ChatInit<UIMessage>) {
    super({ ...init, state: new PageState(messages) });
  }

  get last(): UIMessage | undefined {
    return this.messages.at(-1);
  }

  get text(): string {
    return textOf(this.last);
  }
}

export function textOf(message: UIMessage | undefined): string {
  return (message?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : [])).join("|");
}

/** Without the members that are only declared. */
export function plain(messages: readonly UIMessage[]): UIMessage[] {
  return JSON.parse(JSON.stringify(messages)) as UIMessage[];
}

/** The parts in short: `text one`, `tool-pay approval-requested`. */
export function shortParts(message: UIMessage | undefined): string[] {
  return (message?.parts ?? []).map((part) => {
    const { type, text, state } = part as { type: string; text?: string; state?: string };
    return [type, text, type.startsWith("tool") ? state : undefined].filter(Boolean).join(" ");
  });
}

type Handler = (request: Request) => Promise<Response>;

/** A transport that calls a handler in this process. */
export function transportTo(handle: Handler, options: { onRestart?: () => void } = {}): DurableChatTransport {
  return new DurableChatTransport({
    ...options,
    fetch: (input, init) =>
      handle(new Request(new URL(String(input), "http://localhost"), init as RequestInit)),
  });
}

/** Words and calls of one answer, and where to pause: `["one ", PAUSE, "two"]`. */
export const PAUSE = Symbol("pause");
type Script = readonly (string | typeof PAUSE | { call: string; id: string; input: object })[];

/** Answers by script, and pauses until `go` is called. Counts its questions. */
export function speaker(...scripts: Script[]) {
  let asked = 0;
  let release: () => void = () => undefined;
  let paused: () => void = () => undefined;
  let atPause = new Promise<void>((resolve) => {
    paused = resolve;
  });
  const pause = (signal: AbortSignal | undefined): Promise<void> => {
    paused();
    return new Promise((resolve, reject) => {
      release = () => {
        atPause = new Promise((next) => {
          paused = next;
        });
        resolve();
      };
      signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
  };
  const model = new MockLanguageModelV3({
    doStream: async ({ abortSignal }) => {
      const script = scripts[asked] ?? ["nothing left to say"];
      asked += 1;
      return { stream: ReadableStream.from(spoken(script, () => pause(abortSignal))) as never };
    },
  });
  return {
    model,
    get asked() {
      return asked;
    },
    /** Resolves when the model has reached a pause. */
    paused: () => atPause,
    go: () => release(),
  };
}

async function* spoken(
  script: Script,
  pause: () => Promise<void>,
): AsyncGenerator<LanguageModelV3StreamPart> {
  const whole = answer([]);
  yield { type: "stream-start", warnings: [] };
  let isOpen = false;
  for (const each of script) {
    if (each === PAUSE) await pause();
    else if (typeof each === "string") {
      if (!isOpen) yield { type: "text-start", id: "1" };
      isOpen = true;
      yield { type: "text-delta", id: "1", delta: each };
    } else {
      if (isOpen) yield { type: "text-end", id: "1" };
      isOpen = false;
      const { id: toolCallId, call: toolName, input } = each;
      yield { type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) };
    }
  }
  if (isOpen) yield { type: "text-end", id: "1" };
  const isCalling = script.some((each) => typeof each === "object");
  const finishReason = { unified: isCalling ? "tool-calls" : "stop", raw: undefined } as const;
  yield { type: "finish", finishReason, usage: whole.usage };
}
