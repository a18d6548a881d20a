/**
 * The last confirmation of a lease is the latest moment that the store confirmed, even if answers come out of
 * order.
 */

import { afterEach, beforeEach, expect, test } from "vitest";
import { Journal, Lease, OwnedLog } from "../../src/journal/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { Gate } from "./gate.ts";
import { altered } from "./places.ts";
import { said, words } from "./words.ts";

const appends = new Gate();
const renewals = new Gate();
let journal: Journal;
let own: OwnedLog<{ list: string[] }>;

beforeEach(async () => {
  const store = altered(openMemory(), {
    append: (append, batch) => appends.pass(async () => append(batch)),
    lease: (lease, request) =>
      request.act === "renew" ? renewals.pass(() => lease(request)) : lease(request),
  });
  journal = new Journal({ store });
  const taken = await journal.leases.take("words/w", "a", { label: "a", waitMs: 0 });
  if (!(taken instanceof Lease)) throw new Error("somebody holds it");
  own = new OwnedLog(await journal.open(words, "w"), taken);
});

afterEach(() => own.lease.release());

test("a slow commit does not overwrite a later renewal", async () => {
  appends.close();
  const commit = own.commit(() => said("slow"));
  await journal.leases.confirm(own.lease);
  const renewed = own.lease.confirmedAt.steady;
  appends.open();
  await commit;
  expect(own.lease.confirmedAt.steady).toBeGreaterThanOrEqual(renewed);
});

test("a slow renewal does not overwrite a later commit", async () => {
  renewals.close();
  const renewal = journal.leases.confirm(own.lease);
  await own.commit(() => said("quick"));
  const committed = own.lease.confirmedAt.steady;
  renewals.open();
  expect(await renewal).toBe(true);
  expect(own.lease.confirmedAt.steady).toBeGreaterThanOrEqual(committed);
});

test.each([Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY])(
  "a lease of %d ms is as long as a timer can be",
  (leaseMs) => {
    expect(new Journal({ store: openMemory(), leaseMs }).leases.ttlMs).toBe(2 ** 31 - 1);
  },
);
