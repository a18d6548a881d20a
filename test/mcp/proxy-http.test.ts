// The proxy before a server that is reached by an address. The server is real and cuts answers on purpose.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { afterEach, describe, expect, test } from "vitest";
import { runProxy } from "../../src/mcp/index.ts";
import { RawProxy, said, soon } from "./raw-proxy.ts";

interface Asked {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: Readonly<Record<string, unknown>> };
}
type Handle = (asked: Asked, response: ServerResponse, request: IncomingMessage) => void;

let proxy: RawProxy | undefined;
let server: Server | undefined;
afterEach(async () => {
  await proxy?.close();
  server?.closeAllConnections();
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
  proxy = undefined;
  server = undefined;
});

const json = (response: ServerResponse, message: object, text = JSON.stringify): void => {
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(text({ jsonrpc: "2.0", ...message }));
};
const ok = (response: ServerResponse, id: unknown, text: string): void =>
  json(response, { id, result: { content: [{ type: "text", text }] } });
const events = (response: ServerResponse, text: string): void => {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.write(text);
};

/** A server that answers the handshake; `handle` gets every other POST, `get` every GET. */
async function listen(
  handle: Handle,
  get: Handle = (_asked, response) => void response.writeHead(405).end(),
) {
  const sessions: string[] = [];
  const made = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      const asked = text === "" ? {} : (JSON.parse(text) as Asked);
      if (request.method === "GET") return get(asked, response, request);
      if (request.method === "DELETE") return void response.writeHead(200).end();
      const { id, method } = asked;
      if (method === "initialize") {
        sessions.push(`session-${sessions.length + 1}`);
        response.setHeader("Mcp-Session-Id", sessions.at(-1) ?? "");
        const serverInfo = { name: "s", version: "1" };
        const result = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo };
        return json(response, { id, result });
      }
      if (id === undefined) return void response.writeHead(202).end();
      return handle(asked, response, request);
    });
  });
  server = made;
  await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(made.address() as AddressInfo).port}/mcp`, sessions };
}

const CUTS: Readonly<Record<string, (response: ServerResponse) => void>> = {
  "before the status": (response) => void response.destroy(),
  "in a stream of events": (response) => {
    events(response, ": open\n\n");
    setImmediate(() => response.destroy());
  },
  "in a body": (response) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": 1000 });
    response.write('{"jsonrpc"');
    setImmediate(() => response.destroy());
  },
  "by a gateway": (response) => void response.writeHead(502).end("bad gateway"),
};

describe.each(Object.keys(CUTS))("an answer that is cut %s after the effect", (how) => {
  test("is not earned twice: the re-issued request waits for a person", async () => {
    let charges = 0;
    const { url } = await listen((_asked, response) => {
      charges += 1;
      CUTS[how]?.(response);
    });
    proxy = await RawProxy.before(() => ({ command: [], url }));
    expect(said(await proxy.call(1, "pay", { order: 17 }))).toContain(
      "unknown whether this call took effect",
    );
    // The protocol tells the client to send it again under a new id.
    expect(said(await proxy.call(2, "pay", { order: 17 }))).toContain("It is not run again");
    expect(charges).toBe(1);
    await proxy.resolve("pay", "landed");
    await soon(async () => expect(await proxy?.calls("pay")).toMatchObject([{ status: "completed" }]));
    expect(charges).toBe(1);
  });
});

test("a cut call with a key is sent again under the same key: one charge", async () => {
  const charged = new Set<unknown>();
  let requests = 0;
  const { url } = await listen(({ id, params }, response) => {
    requests += 1;
    charged.add(params?.arguments?.["key"]);
    if (requests === 1) response.destroy();
    else ok(response, id, "paid");
  });
  const config = "tools: { pay: { idempotent: true, keyArgument: key } }";
  proxy = await RawProxy.before(() => ({ command: [], url }), config);
  expect(said(await proxy.call(1, "pay", { order: 17 }))).toContain("paid");
  expect([requests, charged.size]).toEqual([2, 1]);
});

test("a stream with event ids is resumed, and the call runs once", async () => {
  let charges = 0;
  let resumedAt: unknown;
  const { url } = await listen(
    ({ id }, response) => {
      charges += 1;
      events(response, `retry: 1\nid: ${String(id)}\ndata:\n\n`);
      setImmediate(() => response.destroy());
    },
    (_asked, response, { headers }) => {
      const id = headers["last-event-id"];
      if (id === undefined) return void response.writeHead(405).end();
      resumedAt = id;
      const answer = { jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "paid" }] } };
      events(response, `data: ${JSON.stringify(answer)}\n\n`);
      response.end();
    },
  );
  proxy = await RawProxy.before(() => ({ command: [], url }));
  expect(said(await proxy.call(1, "pay", {}))).toBe("paid");
  expect(resumedAt).toBeDefined();
  expect(charges).toBe(1);
});

test("a server that forgot the session gets the handshake again, and the call runs once", async () => {
  let charges = 0;
  const { url, sessions } = await listen(({ id }, response, { headers }) => {
    if (headers["mcp-session-id"] !== "session-2") return void response.writeHead(404).end();
    charges += 1;
    ok(response, id, "paid");
  });
  proxy = await RawProxy.before(() => ({ command: [], url }));
  expect(said(await proxy.call(1, "pay", {}))).toBe("paid");
  expect([sessions.length, charges]).toEqual([2, 1]);
});

test("without a connection the call has failed, and the same call runs later", async () => {
  const { url } = await listen(({ id }, response) => ok(response, id, "paid"));
  proxy = await RawProxy.before(() => ({ command: [], url }));
  const port = Number(new URL(url).port);
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
  expect(said(await proxy.call(1, "pay", {}))).toContain("nothing has happened");
  await new Promise<void>((resolve) => server?.listen(port, "127.0.0.1", resolve));
  expect(said(await proxy.call(2, "pay", {}))).toBe("paid");
});

test("an answer over several lines is one line for the client, with its numbers as they were", async () => {
  const { url } = await listen(({ id }, response) => {
    const shown = { content: [], structuredContent: { row: "9007199254740993" } };
    const text = (message: object): string =>
      JSON.stringify(message, null, 2).replace('"9007199254740993"', "9007199254740993");
    json(response, { id, result: shown }, text);
  });
  proxy = await RawProxy.before(() => ({ command: [], url }));
  proxy.say({ id: 1, method: "tools/call", params: { name: "pay", arguments: {} } });
  expect(await proxy.line(({ id, method }) => id === 1 && method === undefined)).toContain(
    "9007199254740993",
  );
});

test("the token goes over TLS or to this machine, and no redirect is followed", async () => {
  const refused = (url: string, token?: string): Promise<void> =>
    runProxy({ command: [], url, token, by: "ann", input: new PassThrough().destroy() });
  await expect(refused("http://example.com/mcp", "secret")).rejects.toThrow(/unencrypted/);
  await expect(refused("ftp://example.com")).rejects.toThrow(/not an address/);
  await expect(refused("https://ann:pw@example.com")).rejects.toThrow(/password/);
  let others = 0;
  const other = createServer((_request, response) => {
    others += 1;
    response.end();
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo;
  const { url } = await listen((_asked, response, { headers }) => {
    expect(headers.authorization).toBe("Bearer secret");
    response.writeHead(307, { Location: `http://127.0.0.1:${port}/` }).end();
  });
  proxy = await RawProxy.before(() => ({ command: [], url, token: "secret" }));
  await proxy.call(1, "pay", {});
  expect(others).toBe(0);
  await new Promise((resolve) => other.close(resolve));
});
