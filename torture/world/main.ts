/**
 * The world that tools act on, in a process that no fault touches. Requests come over a unix socket. Each
 * names the folder of its case, where the world keeps its log.
 *
 *     plain    every request that arrives is applied
 *     keyed    the first request with a key is applied, later ones get the first's answer
 *     fenced   a request whose key was verified since is refused: `verify` raises the fence to that attempt
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Behaviour } from "../scenario.ts";
import { readEntries, type WorldEntry, type WorldKind, writeEntry } from "./log.ts";

export interface EffectRequest {
  readonly dir: string;
  readonly mode: "plain" | "keyed" | "fenced" | "read";
  readonly tool: string;
  readonly item: string;
  readonly key: string;
  readonly session: string;
  readonly callId: string;
  readonly attempt: number;
  readonly token: number;
  readonly world: Behaviour;
}

export type VerifyRequest = Omit<EffectRequest, "mode" | "world"> & { readonly fence: boolean };

/** The state of one case that its log does not contain. */
class Place {
  readonly requests = new Map<string, number>();
  readonly fences = new Map<string, number>();
  pending = 0;
  private quiet: (() => void)[] = [];
  private holding: (() => void)[] = [];
  private released = false;
  /** Requests that are applied once their key was verified. */
  private readonly unasked = new Map<string, { readonly land: () => void; readonly answerMs: number }>();

  begin(): void {
    this.pending++;
  }

  end(): void {
    this.pending--;
    if (this.pending > 0) return;
    for (const tell of this.quiet.splice(0)) tell();
  }

  whenQuiet(): Promise<void> {
    if (this.pending === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.quiet.push(resolve);
    });
  }

  whenReleased(): Promise<void> {
    if (this.released) return Promise.resolve();
    return new Promise((resolve) => {
      this.holding.push(resolve);
    });
  }

  whenAsked(key: string, answerMs: number): Promise<void> {
    return new Promise((land) => {
      this.unasked.set(key, { land, answerMs });
    });
  }

  /** Lets a request land that waited for this question, and takes its time. */
  async asked(key: string): Promise<void> {
    const waiting = this.unasked.get(key);
    if (!waiting) return;
    this.unasked.delete(key);
    waiting.land();
    await after(waiting.answerMs);
  }

  release(): void {
    this.released = true;
    for (const go of this.holding.splice(0)) go();
  }
}

const places = new Map<string, Place>();

function placeOf(dir: string): Place {
  const known = places.get(dir) ?? new Place();
  places.set(dir, known);
  return known;
}

type Reply = { readonly status: number; readonly body: unknown } | "cut";

async function effect(request: EffectRequest): Promise<Reply> {
  const place = placeOf(request.dir);
  const count = (place.requests.get(request.item) ?? 0) + 1;
  place.requests.set(request.item, count);
  const { world } = request;
  place.begin();
  try {
    if (world.landsWhenAsked && count === 1) {
      await place.whenAsked(request.key, world.landsWhenAsked.answerMs);
    }
    if (world.hold) await place.whenReleased();
    if (world.delayMs !== undefined) await after(world.delayMs);
    if (count <= (world.refuse ?? 0)) return refuse(request, "refused");
    if ((place.fences.get(request.key) ?? 0) >= request.attempt) return refuse(request, "fenced");
    const result = apply(request);
    return count <= (world.lose ?? 0) ? "cut" : { status: 200, body: { result } };
  } finally {
    place.end();
  }
}

function apply(request: EffectRequest): string {
  const { dir, key, mode } = request;
  if (mode === "read") return note(request, "read", `read ${request.item}`);
  const effects = readEntries(dir).filter((entry) => entry.kind === "effect");
  const first = mode === "keyed" ? effects.find((entry) => entry.key === key) : undefined;
  if (first) return note(request, "replayed", first.result);
  return note(request, "effect", `receipt ${effects.length + 1} for ${request.item}`);
}

function refuse(request: EffectRequest, kind: "refused" | "fenced"): Reply {
  note(request, kind, "");
  return { status: 422, body: { kind } };
}

/** With `fence`, anything not applied by now can never be, for this key, up to this attempt. */
async function verify(request: VerifyRequest): Promise<Reply> {
  const { dir, key, attempt } = request;
  const found = readEntries(dir).find((entry) => entry.kind === "effect" && entry.key === key);
  if (!found && request.fence) {
    const { fences } = placeOf(dir);
    fences.set(key, Math.max(attempt, fences.get(key) ?? 0));
  }
  note(request, "verified", found ? "landed" : "nothing");
  await placeOf(dir).asked(key);
  return { status: 200, body: { result: found?.result ?? null } };
}

function note(
  request: Omit<WorldEntry, "kind" | "result"> & { dir: string },
  kind: WorldKind,
  result: string,
) {
  const { dir, tool, item, key, session, callId, attempt, token } = request;
  writeEntry(dir, { kind, tool, item, key, session, callId, attempt, token, result });
  return result;
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

async function answer(path: string, body: unknown): Promise<Reply> {
  if (path === "/effect") return effect(body as EffectRequest);
  if (path === "/verify") return verify(body as VerifyRequest);
  const place = placeOf((body as { dir: string }).dir);
  if (path === "/release") place.release();
  else if (path === "/quiet") await place.whenQuiet();
  else return { status: 404, body: {} };
  return { status: 200, body: {} };
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const reply = await answer(request.url ?? "", JSON.parse(Buffer.concat(chunks).toString()));
  if (reply === "cut") request.socket.destroy();
  else response.writeHead(reply.status).end(JSON.stringify(reply.body));
}

const server = createServer((request, response) => {
  // A client that was killed while sending has requested nothing.
  serve(request, response).catch(() => request.socket.destroy());
});
server.listen(process.argv[2], () => console.log("listening"));
// The harness holds the other end. When it exits, so does the world.
process.stdin.on("end", () => process.exit(0)).resume();
