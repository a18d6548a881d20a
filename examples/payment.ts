/**
 * A payment tool for a vendor that takes an idempotency key. The connection may break during a charge. A
 * throw is not a failure: the call's outcome is unknown, and `verify` asks the vendor before anything is
 * repeated.
 *
 *     landed   the vendor has it: its result is recorded, and the card is not charged again
 *     never    the vendor refused it and always will: another attempt, with the same key
 *     notYet   no trace, but the vendor's search lags behind: asked again until `settleMs` have passed
 *     unsure   the vendor cannot tell: another attempt if it remembers keys, otherwise a person decides
 */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { DefiniteFailure, landed, never, notYet, open, tool, unsure } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

// ── A vendor, as unreliable as they come ───────────────────────────────────────────────────────────────────

interface Payment {
  readonly id: string;
  readonly order: string;
}

const payments = new Map<string, Payment & { visibleAt: number }>();
const refused = new Set<string>();
const requests: string[] = [];
let charges = 0;

const vendor = createServer(async (request, response) => {
  const key = String(request.headers["idempotency-key"]);
  if (request.method === "GET") {
    const payment = payments.get(key);
    const visible = payment && payment.visibleAt <= Date.now() ? payment : null;
    response.end(JSON.stringify({ payment: visible, refused: refused.has(key) }));
    return;
  }
  const order = request.url?.slice(1) ?? "";
  requests.push(order);
  const again = requests.filter((each) => each === order).length > 1;
  if (order === "declined") response.writeHead(402).end("card declined");
  else if (order === "refused" && !again) {
    refused.add(key);
    request.socket.destroy();
  } else {
    if (!payments.has(key)) {
      charges++;
      payments.set(key, {
        id: `pay_${charges}`,
        order,
        visibleAt: Date.now() + (order === "lagging" ? 400 : 0),
      });
    }
    // The charge went through, and the answer is lost on its way back.
    if (order === "fine" || again) response.end(JSON.stringify(payments.get(key)));
    else request.socket.destroy();
  }
});
await new Promise<void>((resolve) => vendor.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`;

// ── The tool ───────────────────────────────────────────────────────────────────────────────────────────────

const charge = tool({
  name: "charge",
  description: "Charge the customer's card",
  effect: "mutate",
  input: z.object({ order: z.string() }),
  dedupe: { scope: "global", key: ({ order }) => `order:${order}` },
  idempotent: { forMs: 23 * 3_600_000 },
  settleMs: 10_000,
  execute: async ({ order }, { key, signal }) => {
    const headers = { "idempotency-key": key };
    const response = await fetch(`${address}/${order}`, { method: "POST", headers, signal });
    if (response.status === 402) throw new DefiniteFailure(await response.text());
    return (await response.json()) as Payment;
  },
  verify: async ({ order }, { key, signal }) => {
    const headers = { "idempotency-key": key };
    const found = (await (await fetch(address, { headers, signal })).json()) as {
      payment: Payment | null;
      refused: boolean;
    };
    if (order === "opaque") return unsure("the vendor's search is down");
    if (found.payment) return landed(found.payment);
    return found.refused ? never() : notYet({ againInMs: 100 });
  },
});

// ── What becomes of each ───────────────────────────────────────────────────────────────────────────────────

const holdfast = await open(temporaryFolder());
const session = await holdfast.session("checkout");
for (const order of ["fine", "landed", "refused", "lagging", "opaque", "declined"]) {
  const outcome = await session.call({ tool: charge, args: { order } });
  const call = (await holdfast.sessions.get("checkout")).calls.find((each) => each.callId === outcome.callId);
  const how = `attempts ${call?.attempt}, settled by ${call?.settledBy}`;
  console.log(`${order.padEnd(9)} ${outcome.status.padEnd(10)} ${how}`);
}

// The same order from another session is the same payment.
const other = await holdfast.session("another-checkout");
const repeated = await other.call({ tool: charge, args: { order: "fine" } });
console.log(
  `fine, from another session: ${repeated.status}, replayed ${"replayed" in repeated && repeated.replayed}`,
);
await holdfast.close();
vendor.close();
vendor.closeAllConnections();
console.log(`charged ${charges} times for ${payments.size} orders`);
