import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** One answer of a provider, in its bytes on the wire. */
export interface WireAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON body, or the events of a stream. */
  readonly body?: unknown;
  readonly events?: readonly ({ readonly type?: string } & Readonly<Record<string, unknown>>)[];
  /** Ends an event stream like some providers. */
  readonly done?: string;
}

export interface WireRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The request as received. */
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: requests of several providers are looked into.
  readonly body: any;
}

/** A provider on loopback that gives these answers in order, and records its requests. */
export async function wireServer(answers: readonly WireAnswer[]) {
  const requests: WireRequest[] = [];
  const rest = [...answers];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString("utf8");
    requests.push({ path: request.url ?? "", headers: request.headers, text, body: JSON.parse(text) });
    const { status = 200, headers = {}, body, events, done } = rest.shift() ?? NOTHING_LEFT;
    const type = events ? "text/event-stream" : "application/json";
    response.writeHead(status, { "content-type": type, ...headers });
    if (!events) return response.end(JSON.stringify(body));
    for (const event of events) {
      const name = event.type === undefined ? "" : `event: ${event.type}\n`;
      response.write(`${name}data: ${JSON.stringify(event)}\n\n`);
    }
    return response.end(done === undefined ? "" : `data: ${done}\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  return { url: `http://127.0.0.1:${port}`, requests, close };
}

const NOTHING_LEFT: WireAnswer = {
  status: 418,
  body: { error: { type: "test", message: "nothing left to say" } },
};
