// Routes that stream: the session is closed when the answer is over or its reader is gone. Real HTTP.

import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { LanguageModelV3StreamPart } from "@ai-sdk/provider";
import { stepCountIs, streamText, tool } from "ai";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { type Holdfast, type Session, type WithSessionOptions, withSession } from "../../../src/index.ts";
import { durable } from "../../../src/integrations/ai-sdk/index.ts";
import { MockModel, streamed } from "./paying-model.ts";
import { freshHoldfast, says, scripted, toolCall } from "./scripted-world.ts";

const servers: { close(): void; closeAllConnections(): void }[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

async function serve(handle: Handler): Promise<string> {
  const server = createServer((request, response) => {
    handle(request, response).catch((error: Error) => {
      // The client of a dropped stream is gone; any other sees the error.
      if (!response.headersSent) response.writeHead(500);
      response.end(error.message);
    });
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Sends a web response, as the adapters of frameworks do: a client that leaves cancels the body. */
async function send(web: Response, response: ServerResponse): Promise<void> {
  response.writeHead(web.status, Object.fromEntries(web.headers));
  await pipeline(Readable.fromWeb(web.body as never), response);
}

/** Reads until the answer contains `text`, then disconnects. */
async function leaveAfter(url: string, text: string): Promise<void> {
  const request = get(url);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  let seen = "";
  for await (const chunk of response) {
    seen += String(chunk);
    if (seen.includes(text)) break;
  }
  request.destroy();
}

/** The words of an answer, which come in pieces. */
async function read(url: string): Promise<string> {
  const body = await (await fetch(url)).text();
  return [...body.matchAll(/"delta":"([^"]*)"/g)].map(([, words]) => words).join("") || body;
}

function promise<Value>() {
  let resolve: (value: Value) => void = () => undefined;
  const made = new Promise<Value>((done) => {
    resolve = done;
  });
  return { promise: made, resolve };
}

/** Says two words and then hangs until it is aborted, as a slow provider; after that it answers. */
function hangsOnce(): { model: MockModel; aborted: Promise<unknown> } {
  let isFirst = true;
  const aborted = promise<unknown>();
  const model = new MockModel({
    doStream: async ({ abortSignal }) => {
      if (!isFirst) return { stream: streamed(says("the whole answer")) };
      isFirst = false;
      const parts: LanguageModelV3StreamPart[] = [
        { type: "stream-start", warnings: [] },
        { type: "text-start", id: "1" },
        { type: "text-delta", id: "1", delta: "well" },
      ];
      const stream = new ReadableStream<LanguageModelV3StreamPart>({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
          abortSignal?.addEventListener("abort", () => {
            aborted.resolve(abortSignal.reason);
            controller.error(abortSignal.reason);
          });
        },
      });
      return { stream };
    },
  });
  return { model, aborted: aborted.promise };
}

function route(holdfast: Holdfast, model: MockModel, options: WithSessionOptions = {}) {
  return withSession(holdfast, "chat", options, async (session) => {
    const d = durable(session);
    const messages = await d.messages("Hello?");
    return streamText({ model: d.model(model), messages }).toUIMessageStreamResponse();
  });
}

const isFree = async (holdfast: Holdfast): Promise<boolean> =>
  (await holdfast.session("chat", { ifHeld: "throw" })).close().then(() => true);

test("a client that leaves mid-stream frees the session, and its next request gets the answer", async () => {
  const holdfast = await freshHoldfast();
  const { model, aborted } = hangsOnce();
  const url = await serve(async (_, response) => send(await route(holdfast, model), response));
  await leaveAfter(url, "well");
  // Waits in the queue of this program, never for a lease.
  expect(await read(url)).toContain("the whole answer");
  expect(await aborted).toMatchObject({ code: "SESSION_CLOSED" });
  expect(await isFree(holdfast)).toBe(true);
});

test("the request's signal frees the session if the server does not cancel the body", async () => {
  const holdfast = await freshHoldfast();
  const { model } = hangsOnce();
  const url = await serve(async (_, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const web = await route(holdfast, model, { signal: gone.signal });
    for await (const chunk of web.body as unknown as AsyncIterable<Uint8Array>) response.write(chunk);
    response.end();
  });
  await leaveAfter(url, "well");
  expect(await read(url)).toContain("the whole answer");
});

test("three requests at once are answered one after the other", async () => {
  const holdfast = await freshHoldfast();
  const model = scripted(says("only answer"));
  const url = await serve(async (_, response) => send(await route(holdfast, model), response));
  const answers = await Promise.all([read(url), read(url), read(url)]);
  for (const each of answers) expect(each).toMatch(/answer|nothing left/);
  expect(await isFree(holdfast)).toBe(true);
});

test("a call in flight is finished, not left to a person, when the client leaves", async () => {
  const holdfast = await freshHoldfast();
  const started = promise<void>();
  const release = promise<void>();
  const log: string[] = [];
  const charge = tool({
    inputSchema: z.object({ order: z.string() }),
    execute: async ({ order }) => {
      started.resolve();
      await release.promise;
      log.push(order);
      return "charged";
    },
  });
  const call = { content: [toolCall("c1", "charge", { order: "17" })] };
  const model = scripted({ ...says(""), ...call, finishReason: { unified: "tool-calls", raw: undefined } });
  const left = promise<void>();
  const url = await serve(async (_, response) => {
    response.once("close", () => left.resolve());
    const web = await withSession(holdfast, "chat", {}, async (session) => {
      const d = durable(session);
      const tools = d.tools({ charge });
      const messages = await d.messages({ id: "pay", text: "Pay" });
      const stopWhen = stepCountIs(3);
      return streamText({ model: d.model(model), tools, messages, stopWhen }).toUIMessageStreamResponse();
    });
    await send(web, response);
  });
  const leaving = leaveAfter(url, "tool-input-available");
  await started.promise;
  await leaving;
  await left.promise;
  const next = read(url);
  release.resolve();
  expect(await next).toContain("nothing left to say");
  expect(log).toEqual(["17"]);
  expect((await holdfast.sessions.get("chat")).calls).toMatchObject([{ status: "completed", attempt: 1 }]);
});

test("with ifDropped: finish the whole answer is recorded after the client has left", async () => {
  const holdfast = await freshHoldfast();
  const go = promise<void>();
  const model = new MockModel({
    doStream: async () => {
      const waiting = new TransformStream<LanguageModelV3StreamPart, LanguageModelV3StreamPart>({
        async transform(part, controller) {
          if (part.type === "finish") await go.promise;
          controller.enqueue(part);
        },
      });
      return { stream: streamed(says("a long answer")).pipeThrough(waiting) };
    },
  });
  const url = await serve(async (_, response) =>
    send(await route(holdfast, model, { ifDropped: "finish" }), response),
  );
  await leaveAfter(url, "text-delta");
  const next = holdfast.session("chat", { ifHeld: "wait" });
  go.resolve();
  const session = await next;
  expect(session.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  await session.close();
});

test("a value, an error and a stream that cannot be followed close the session at once", async () => {
  const holdfast = await freshHoldfast();
  const model = scripted(says("one"), says("two"));
  const use = <Result>(work: (session: Session) => Result | Promise<Result>) =>
    withSession(holdfast, "chat", {}, work);
  expect(await use(({ id }) => id)).toBe("chat");
  expect(await isFree(holdfast)).toBe(true);
  await expect(use(() => Promise.reject(new Error("no model")))).rejects.toThrow("no model");
  expect(await isFree(holdfast)).toBe(true);
  const unread = use(async (session) => streamText({ model: durable(session).model(model), prompt: "Hi" }));
  await expect(unread).rejects.toMatchObject({
    code: "INPUT_INVALID",
    hint: expect.stringContaining("toUIMessageStreamResponse"),
  });
  expect(await isFree(holdfast)).toBe(true);
  const bare = await use(async (session) => {
    const d = durable(session);
    return streamText({ model: d.model(model), messages: await d.messages("Hi") }).textStream;
  });
  let words = "";
  for await (const word of bare) words += word;
  expect(words).toMatch(/one|two/);
  expect(await isFree(holdfast)).toBe(true);
  await expect(use((session) => session.close().then(() => session.append([])))).rejects.toMatchObject({
    code: "SESSION_CLOSED",
    hint: expect.stringContaining("withSession()"),
  });
});
