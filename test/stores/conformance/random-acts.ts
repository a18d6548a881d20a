/**
 * Acts as data. An intention says "append at the head" or "with a token that is one too old". It becomes a
 * request only when its turn comes, from the model's state at that time. So every generated list makes
 * sense, and still does when it is shrunk.
 */

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import type { Batch, Guard, LeaseRequest, PutRequest, RemoveRequest, Write } from "../../../src/store.ts";
import type { StoreModel } from "./store-model.ts";

export const NAMESPACE = "default";
export const STREAMS = ["session/a", "session/A", "session/a_b", "goal/g"] as const;
export const LEASES = ["session/a", "goal/g"] as const;
export const KEYS = ["key", "KEY"] as const;
const ARTIFACTS = ["one", "two"].map((text) => {
  const bytes = new Uint8Array(Buffer.from(text));
  return { bytes, hash: createHash("sha256").update(bytes).digest("hex") };
});
export const HASHES = ARTIFACTS.map(({ hash }) => hash);

/** A request, ready for the store and for the model. */
export type Act =
  | { readonly verb: "append"; readonly batch: Batch }
  | { readonly verb: "lease"; readonly request: LeaseRequest }
  | { readonly verb: "remove"; readonly request: RemoveRequest }
  | { readonly verb: "put"; readonly request: Extract<PutRequest, { of: "artifact" }> };

const SHORT_MS = 10;

const stream = fc.constantFrom(...STREAMS);
const lease = fc.constantFrom(...LEASES);
const key = fc.constantFrom(...KEYS);
const handle = fc.constantFrom(0 as const, 1 as const);
const mostly = <Value>(usual: Value, ...others: Value[]) =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );

const rarely = <Value>(arbitrary: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });

const writeIntent = fc.record({
  stream,
  count: fc.integer({ min: 1, max: 3 }),
  expect: mostly("end", "behind", "ahead", "next life"),
  guard: rarely(fc.record({ lease, token: mostly("current", "older", "newer") })),
  claims: rarely(fc.uniqueArray(key, { minLength: 1, maxLength: 2 })),
  releases: rarely(fc.uniqueArray(key, { minLength: 1, maxLength: 2 })),
  fork: fc.option(fc.record({ parent: stream, back: fc.nat(2) }), { freq: 2, nil: null }),
  artifact: rarely(fc.constantFrom(...HASHES)),
  status: fc.option(fc.constantFrom("open", "done"), { nil: null }),
  item: fc.option(fc.record({ id: fc.constantFrom("i", "I"), isDone: fc.boolean() }), { nil: null }),
});

const appendIntent = fc.record({
  kind: fc.constant("append" as const),
  writes: fc.uniqueArray(writeIntent, { minLength: 1, maxLength: 2, selector: (write) => write.stream }),
});

const leaseIntent = fc.record({
  kind: fc.constant("lease" as const),
  act: fc.constantFrom("take", "take", "renew", "release"),
  lease,
  owner: fc.constantFrom("one", "two"),
  token: mostly("current", "older", "newer"),
  evict: mostly(false, true),
  ttlMs: fc.constantFrom(SHORT_MS, 1_000_000),
});

const removeIntent = fc.record({
  kind: fc.constant("remove" as const),
  stream,
  expect: mostly("end", "behind", "ahead", "next life"),
  guard: rarely(fc.record({ lease, token: mostly("current", "older") })),
  erase: fc.boolean(),
});

const putIntent = fc.record({ kind: fc.constant("put" as const), artifact: fc.nat(ARTIFACTS.length - 1) });
const collectIntent = fc.record({ kind: fc.constant("collect" as const), ageMs: fc.constantFrom(0, 20) });
/** Sends an earlier batch again, whatever its outcome was. */
const resendIntent = fc.record({ kind: fc.constant("resend" as const), back: fc.nat(5) });

const request = fc.oneof(
  { weight: 12, arbitrary: appendIntent },
  { weight: 5, arbitrary: leaseIntent },
  { weight: 2, arbitrary: removeIntent },
  { weight: 2, arbitrary: resendIntent },
  { weight: 1, arbitrary: putIntent },
  { weight: 1, arbitrary: collectIntent },
);
type RequestIntent = typeof request extends fc.Arbitrary<infer Value> ? Value : never;

const alone = fc.record({ kind: fc.constant("alone" as const), handle, request });
/** Two handles act at the same time, each knowing only the state before. */
const race = fc.record({ kind: fc.constant("race" as const), requests: fc.tuple(request, request) });
/** Most of a short lease, or all of it: the time between is up to the store. */
const pass = fc.record({
  kind: fc.constant("pass" as const),
  ms: fc.constantFrom(SHORT_MS * 0.8, SHORT_MS * 5),
});
const reopen = fc.record({ kind: fc.constant("reopen" as const), handle });

export const intention = fc.oneof(
  { weight: 12, arbitrary: alone },
  { weight: 3, arbitrary: race },
  { weight: 2, arbitrary: pass },
  { weight: 1, arbitrary: reopen },
);
export type Intention = typeof intention extends fc.Arbitrary<infer Value> ? Value : never;

/** Makes requests, and remembers the batches so that they can be sent again. */
export class Requests {
  private readonly sent: Batch[] = [];
  private at = 1_000;

  make(intent: RequestIntent, model: StoreModel): Act {
    switch (intent.kind) {
      case "append": {
        const writes = intent.writes.map((write) => this.write(write, model));
        const batch = { id: `batch ${this.sent.length}`, namespace: NAMESPACE, writes };
        this.sent.push(batch);
        return { verb: "append", batch };
      }
      case "resend": {
        const batch = this.sent.at(-1 - intent.back);
        if (batch) return { verb: "append", batch };
        return this.make({ kind: "put", artifact: 0 }, model);
      }
      case "lease":
        return { verb: "lease", request: leaseRequest(intent, model) };
      case "remove": {
        const { stream, expect, guard, erase } = intent;
        const guards = guard ? { guards: [guardOf(guard, model)] } : {};
        const place = { namespace: NAMESPACE, stream, expect: expected(stream, expect, model) };
        return { verb: "remove", request: { of: "stream", ...place, ...guards, ...(erase && { erase }) } };
      }
      case "put": {
        const { hash, bytes } = ARTIFACTS[intent.artifact] as (typeof ARTIFACTS)[number];
        return {
          verb: "put",
          request: { of: "artifact", namespace: NAMESPACE, hash, bytes, at: this.tick() },
        };
      }
      case "collect": {
        const putBefore = this.at - intent.ageMs;
        return { verb: "remove", request: { of: "artifacts", namespace: NAMESPACE, putBefore } };
      }
    }
  }

  /** Every write has a time of its own, so that the order of lists is fully determined. */
  private tick(): number {
    this.at += 1;
    return this.at;
  }

  private write(intent: (RequestIntent & { kind: "append" })["writes"][number], model: StoreModel): Write {
    const { stream, count, guard, claims, releases, artifact, status, item } = intent;
    const fork = model.state(stream) === "gone" && intent.fork ? forkOf(intent.fork, model) : null;
    const end = expected(stream, intent.expect, model);
    const expect = fork ? { ...end, seq: fork.seq } : end;
    const at = this.tick();
    const payload = JSON.stringify(Array.from({ length: count }, (_, index) => `${stream} ${at} ${index}`));
    return {
      stream,
      expect,
      count,
      payload,
      codec: null,
      sum: crc32(payload),
      at,
      ...(fork && { fork }),
      ...(guard && { guards: [guardOf(guard, model)] }),
      claims: (claims ?? []).map((name, index) => ({ key: name, event: index % count })),
      releases: releases ?? [],
      ...(artifact && { artifacts: [artifact] }),
      ...(status && { facets: { status } }),
      ...(item && {
        items: [{ kind: "checkpoint", id: item.id, seq: 1, at: 1, ...(item.isDone && { doneAt: at }) }],
      }),
    };
  }
}

function expected(stream: string, where: string, model: StoreModel): Write["expect"] {
  const { generation, seq } = model.head(stream);
  if (where === "behind") return { generation, seq: Math.max(0, seq - 1) };
  if (where === "ahead") return { generation, seq: seq + 1 };
  return where === "next life" ? { generation: generation + 1, seq: 0 } : { generation, seq };
}

function guardOf({ lease: name, token }: { lease: string; token: string }, model: StoreModel): Guard {
  const current = model.lease(name)?.token ?? 1;
  return { lease: name, token: current + (token === "older" ? -1 : token === "newer" ? 1 : 0) };
}

function forkOf(
  { parent, back }: { parent: string; back: number },
  model: StoreModel,
): NonNullable<Write["fork"]> {
  const { generation, seq } = model.head(parent);
  return { stream: parent, generation, seq: Math.max(0, seq - back) };
}

function leaseRequest(intent: RequestIntent & { kind: "lease" }, model: StoreModel): LeaseRequest {
  const { act, owner, ttlMs, evict } = intent;
  const guard = guardOf(intent, model);
  if (act === "release") return { act, namespace: NAMESPACE, lease: guard };
  if (act === "renew") {
    const others = LEASES.filter((name) => name !== guard.lease);
    const leases = [guard, ...others.map((name) => guardOf({ lease: name, token: "current" }, model))];
    return { act, namespace: NAMESPACE, leases, ttlMs };
  }
  const facts = { label: owner, host: "h", pid: 1, started: null, boot: null, pidNamespace: null };
  const taken = { namespace: NAMESPACE, name: guard.lease, holder: { owner, ...facts }, ttlMs };
  return { act: "take", ...taken, ...(evict && { evict: guard.token }) };
}
