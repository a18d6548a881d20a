import * as z from "zod";
import { open, type Store, tool } from "../../../src/index.ts";
import { goalKind } from "../../../src/model/goal/index.ts";
import { sessionKind } from "../../../src/model/session/index.ts";

/**
 * Fills a store with a bit of everything: calls, keys, forks, tombstones, artifacts, goals, two namespaces.
 */

export const world: string[] = [];

export const charge = tool({
  name: "charge",
  description: "Charge once, ever",
  input: z.object({ order: z.string() }),
  effect: "mutate",
  dedupe: { scope: "global", key: ({ order }) => `order:${order}` },
  execute: ({ order }) => {
    world.push(order);
    return { paid: order };
  },
});

const opaque = tool({
  name: "opaque",
  description: "Nobody can tell whether it happened",
  input: z.object({}),
  effect: "mutate",
  execute: () => {
    throw new Error("the line went dead");
  },
});

const picture = new Uint8Array(30_000).fill(7);

export async function fill(store: Store): Promise<void> {
  const holdfast = await open(undefined, { store });
  const hash = await holdfast.putArtifact(picture);
  const alpha = await holdfast.session("alpha", { title: "Alpha \u0000 and \ud800", goal: "checkout" });
  await alpha.append({ id: "m1", role: "user", text: "Pay order 1" }, { checkpoint: "begun" });
  await alpha.append({ role: "user", blocks: [{ kind: "file", artifact: hash, mediaType: "image/png" }] });
  await alpha.call({ callId: "c1", tool: charge, args: { order: "1" } });
  await alpha.call({ callId: "c2", tool: opaque, args: {} });
  await alpha.fork("beta", { version: 1 });
  await alpha.close();
  const removed = await holdfast.session("removed");
  await removed.call({ callId: "c1", tool: charge, args: { order: "2" } });
  await removed.close();
  await holdfast.sessions.erase("removed");
  const parent = await holdfast.session("parent");
  await parent.checkpoint();
  await parent.fork("child", { version: 1 });
  await parent.close();
  await holdfast.journal.remove("session/parent");
  const goal = await holdfast.goal("checkout", {
    statement: "Ship it",
    tasks: [{ title: "a" }, { title: "b" }],
  });
  const claim = await goal.claim("T-001", { by: { name: "w", role: "worker" } });
  await claim.submit({ summary: "done" });
  const other = await open(undefined, { store, namespace: "other" });
  await (await other.session("alpha")).close();
}

/** Everything that a reader can see of a store, sorted. */
export async function contentsOf(store: Store): Promise<unknown> {
  const { journal } = await open(undefined, { store });
  const streams = [];
  for (const stream of [
    "session/alpha",
    "session/beta",
    "session/child",
    "session/parent",
    "session/removed",
  ]) {
    const events = [];
    for await (const each of journal.events(stream)) events.push(each);
    const { state } = await journal.load(sessionKind, stream.slice("session/".length));
    streams.push({ row: await journal.row(stream), events, state: sessionKind.encode(state) });
  }
  const { state } = await journal.load(goalKind, "checkout");
  const calls = await journal.list<"items">({ of: "items", kind: "call", limit: 100 });
  const leases = await journal.list<"leases">({ of: "leases", limit: 100 });
  return {
    streams,
    goal: goalKind.encode(state),
    calls: calls.rows,
    tokens: leases.rows.map(({ name, token }) => ({ name, token })),
    other: await store.read({ namespace: "other", stream: "session/alpha", after: 0 }),
    problems: await store.check(),
  };
}
