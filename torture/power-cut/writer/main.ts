/**
 * Writes to a store under a tracer. Every acknowledgement goes to a file that is traced with the store's
 * files, so that writes, syncs and acknowledgements have one order.
 *
 * Modes: `whole` begins a store; `until an error` does so and exits at the first I/O error, without closing;
 * `resumed` continues a store.
 */

import { closeSync, openSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { sha256 } from "../../../src/model/digest.ts";
import type { Store } from "../../../src/store.ts";
import { chosenStore, openStore } from "../../store-under-test.ts";

/** Facts that must survive a power cut. */
export type Promised =
  | { readonly stream: string; readonly first: number; readonly batch: string; readonly sum: number }
  | { readonly artifact: string }
  | { readonly lease: string; readonly token: number };

const [folder = "", acks = "", rounds = "2", size = "200", mode = "whole"] = process.argv.slice(2);
const told = openSync(acks, "a");
const promise = (promised: Promised): void => {
  writeSync(told, `${JSON.stringify(promised)}\n`);
};

const namespace = "default";
const seqs = new Map<string, number>();

async function append(store: Store, stream: string, text: string, isKept = true): Promise<void> {
  const seq = seqs.get(stream) ?? 0;
  const payload = JSON.stringify([{ type: "note", v: 1, at: 1, data: { text } }]);
  const batch = `${stream}-${seq + 1}`;
  const sum = crc32(payload);
  const write = { stream, expect: { generation: 1, seq }, count: 1, payload, codec: null, sum, at: 1 };
  const outcome = await store.append({ id: batch, namespace, writes: [write] });
  if (outcome.outcome !== "ok") throw new Error(`append answered ${outcome.outcome}`);
  seqs.set(stream, seq + 1);
  if (isKept) promise({ stream, first: seq + 1, batch, sum });
}

async function round(store: Store, number: number): Promise<void> {
  const holder = { owner: `o${number}`, label: "writer", host: "h", pid: 1, started: null, boot: null };
  const lease = await store.lease({
    act: "take",
    namespace,
    name: `session/r${number}`,
    holder: { ...holder, pidNamespace: null },
    ttlMs: 1_000,
  });
  if (lease.outcome === "granted") promise({ lease: lease.lease.name, token: lease.lease.token });
  await append(store, "session/a", `first of round ${number}`);
  await append(store, "session/b", "x".repeat(Number(size)));
  const bytes = new TextEncoder().encode(`artifact ${number} `.repeat(60));
  await store.put({ of: "artifact", namespace, hash: sha256(bytes), bytes, at: 1 });
  promise({ artifact: sha256(bytes) });
  await Promise.all([append(store, "session/a", "together"), append(store, "session/c", "with this")]);
  // The files store rewrites its journal once enough of it is waste; SQLite reuses its pages in place.
  if (chosenStore().name === "files") await appendAndRemove(store, `session/brief-${number}`);
}

async function appendAndRemove(store: Store, stream: string): Promise<void> {
  await append(store, stream, "x".repeat(Number(size) * 3), false);
  const expect = { generation: 1, seq: 1 };
  const { outcome } = await store.remove({ of: "stream", namespace, stream, expect });
  if (outcome !== "removed") throw new Error(`remove answered ${outcome}`);
}

async function readHeads(store: Store): Promise<void> {
  for (const name of ["session/a", "session/b", "session/c"]) {
    const { stream } = await store.read({ namespace, stream: name, after: 0, limit: 1 });
    if (stream.head.seq > 0 && mode !== "resumed") throw new Error("the store is not new");
    seqs.set(name, stream.head.seq);
  }
}

async function writeAll(): Promise<void> {
  const first = mode === "resumed" ? 100 : 0;
  for (let number = 0; number < Number(rounds); number++) {
    const store = await openStore(`${folder}/store`);
    if (number === 0) await readHeads(store);
    await round(store, first + number);
    await round(store, first + number + Number(rounds));
    await store.close();
  }
}

try {
  await writeAll();
} catch (error) {
  if (mode !== "until an error" || (error as { code?: string }).code !== "STORE_IO") throw error;
  process.exit(0);
}
closeSync(told);
