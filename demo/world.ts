/**
 * The world: a payment provider, a mail service, a pager and a model, in a process that is never killed. It
 * appends every effect to its own log, which the demo compares with the agent's ledger at the end.
 *
 *     payments   remember idempotency keys, as good vendors do; can be looked up by key
 *     mails      remember nothing; can be looked up by key. A look-up with a fencing token shuts
 *                out every older sender, so that "not here" stays true
 *     pages      remember nothing and cannot be looked up: only a person can read the desk's channel
 *
 * Before and after each effect it asks the conductor, which may kill the agent at that moment.
 */

import { appendFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answer, ORDERS } from "./scripted-model.ts";

/** A line of the world's log: an effect that happened and cannot be undone. */
export interface Effect {
  readonly kind: "payment" | "mail" | "page";
  readonly subject: string;
  readonly key: string;
  readonly at: string;
}

/** A line of the model's log: an answer that it gave. */
export interface Answered {
  readonly kind: "answer";
  readonly words: string;
}

/** `arrived`: the request has done nothing yet. `applied`: it has had its effect, but is not answered yet. */
export interface Moment {
  readonly id: string;
  readonly stage: "arrived" | "applied";
  readonly kind: Effect["kind"] | "model";
  readonly subject: string;
}

const log = process.argv[2] as string;
const payments = new Map<string, object>();
const mails = new Map<string, object>();
const fences = new Map<string, number>();
const asking = new Map<string, (go: boolean) => void>();
let requests = 0;
let asked = 0;

process.on("message", ({ id, go }: { id: string; go: boolean }) => {
  asking.get(id)?.(go);
  asking.delete(id);
});
process.on("disconnect", () => process.exit());

/** False if the agent was killed at this moment. The request is then dropped. */
function moment(request: number, stage: Moment["stage"], kind: Moment["kind"], subject: string) {
  const id = `${request}.${stage}`;
  process.send?.({ id, stage, kind, subject } satisfies Moment);
  return new Promise<boolean>((resolve) => asking.set(id, resolve));
}

interface Posted {
  readonly key: string;
  readonly token: number;
  readonly body: Record<string, string>;
}

type Refusal = { readonly status: number; readonly error: string };

/** The effect of a request, prepared but not applied, so that the conductor can step in before it. */
type Prepared = { readonly subject: string; readonly apply: () => object };

const POSTS: Record<string, { kind: Effect["kind"]; prepare: (posted: Posted) => Prepared | Refusal }> = {
  "/payments": {
    kind: "payment",
    prepare: ({ key, body }) => ({
      subject: body["orderId"] ?? "",
      apply: () => {
        const known = payments.get(key);
        if (known) return known;
        record("payment", body["orderId"] ?? "", key);
        const payment = { payment: `pay_${payments.size + 1}`, cents: body["cents"] };
        payments.set(key, payment);
        return payment;
      },
    }),
  },
  "/mails": {
    kind: "mail",
    prepare: ({ key, token, body }) => {
      if (token < (fences.get(key) ?? 0))
        return { status: 410, error: "a later sender asked after this mail" };
      const apply = () => {
        record("mail", body["to"] ?? "", key);
        mails.set(key, { mail: `mail_${mails.size + 1}` });
        return mails.get(key) as object;
      };
      return { subject: body["to"] ?? "", apply };
    },
  },
  "/pages": {
    kind: "page",
    prepare: ({ key, body }) => {
      const apply = () => {
        record("page", body["desk"] ?? "", key);
        return { paged: body["desk"] };
      };
      return { subject: body["desk"] ?? "", apply };
    },
  },
};

function record(kind: Effect["kind"], subject: string, key: string): void {
  append({ kind, subject, key, at: new Date().toISOString() });
}

function append(line: Effect | Answered): void {
  appendFileSync(log, `${JSON.stringify(line)}\n`);
}

async function post(path: string, posted: Posted, response: ServerResponse): Promise<void> {
  const service = POSTS[path];
  if (!service) return reply(response, 404, { error: `no service at ${path}` });
  const prepared = service.prepare(posted);
  if ("error" in prepared) return reply(response, prepared.status, { error: prepared.error });
  const request = ++requests;
  const { kind } = service;
  if (!(await moment(request, "arrived", kind, prepared.subject))) return drop(response);
  const result = prepared.apply();
  if (!(await moment(request, "applied", kind, prepared.subject))) return drop(response);
  reply(response, 200, result);
}

async function model(messages: readonly { role: string }[], response: ServerResponse): Promise<void> {
  const turn = messages.filter((message) => message.role === "assistant").length;
  const question = asked++;
  const request = ++requests;
  if (!(await moment(request, "arrived", "model", String(turn + 1)))) return drop(response);
  const said = answer(turn, question);
  const [first] = "blocks" in said.message ? said.message.blocks : [];
  append({ kind: "answer", words: first?.kind === "text" ? first.text : "" });
  reply(response, 200, said);
}

function find(url: URL, response: ServerResponse): void {
  const key = url.searchParams.get("key") ?? "";
  const token = Number(url.searchParams.get("token") ?? 0);
  if (url.pathname === "/mails") fences.set(key, Math.max(token, fences.get(key) ?? 0));
  const found = url.pathname === "/mails" ? mails.get(key) : payments.get(key);
  reply(response, 200, url.pathname === "/orders" ? { orders: ORDERS } : { found: found ?? null });
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function drop(response: ServerResponse): void {
  response.destroy();
}

async function read(request: IncomingMessage) {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://world");
  if (request.method === "GET") return find(url, response);
  const body = await read(request);
  if (url.pathname === "/model") return model(body.messages, response);
  const key = String(request.headers["idempotency-key"] ?? "");
  return post(url.pathname, { key, token: Number(request.headers["x-token"] ?? 0), body }, response);
}

const server = createServer((request, response) => {
  // A request that breaks off was cut by a kill. The next one is served normally.
  serve(request, response).catch(() => response.destroy());
});
server.listen(0, "127.0.0.1", () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});
