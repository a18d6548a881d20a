/**
 * What the ledger adds around one mutating call: the intent before it, the outcome after it. The floor is two raw
 * commits of the very payloads that the ledger wrote. The assistant message that asks for the call is durable
 * before, in both cases, and not timed.
 */

import { type Message, type Session, type Tool, tool } from "../src/index.ts";
import type { Store } from "../src/store.ts";
import type { Measure } from "./measure.ts";
import { alternate, perItem, ratio } from "./rounds.ts";
import { anything } from "./schema.ts";
import { prose, random } from "./turns.ts";

const ROUNDS = 150;
/** Calls before the first timed one: until then most of the time goes into compiling what is run. */
const WARM_CALLS = 300;

const charge = tool({
  name: "charge",
  description: "Charges a customer.",
  input: anything,
  effect: "mutate",
  execute: (args) => ({ receipt: "receipt-4711", args }),
}) as unknown as Tool;

export const ledgerVsTwoCommits: Measure = {
  name: "ledgerVsTwoCommits",
  what: "the ledger around one mutating call, against two raw commits of the same bytes",
  bar: 1.3,
  direction: "at most",
  async run(scratch) {
    const raw = await scratch.openRaw();
    const holdfast = await scratch.openOurs();
    await scratch.warmUp(holdfast, raw);
    const session = await holdfast.session("ledger");
    const payloads = await recordPayloads(holdfast.journal.store, session);
    for (let call = 1; call <= WARM_CALLS; call++) {
      await session.calls(await ask(session, ROUNDS + call), [charge]);
    }
    let message = await ask(session, 0);
    const rounds = await alternate(
      ROUNDS,
      (round) => {
        for (const [index, payload] of payloads.entries()) raw.write(1, 2 * round + index + 1, payload);
      },
      () => session.calls(message, [charge]),
      async (round) => {
        message = await ask(session, round);
      },
    );
    const bytes = payloads.reduce((sum, payload) => sum + payload.length, 0);
    return { value: ratio(rounds), numbers: { ...perItem(rounds, 1), bytes } };
  },
};

function ask(session: Session, round: number): Promise<Message> {
  const args = { customer: `customer-${round}`, cents: 1999, note: prose(random(round + 1), 300) };
  const call = { kind: "tool_call", id: `call-${round}`, name: charge.name, args } as const;
  return session.append({ id: `ask-${round}`, role: "assistant", blocks: [call] });
}

/** What one call makes the ledger write; two payloads, or the comparison would not be one. */
async function recordPayloads(store: Store, session: Session): Promise<string[]> {
  const payloads: string[] = [];
  const append = store.append;
  const message = await ask(session, ROUNDS);
  store.append = (batch) => {
    payloads.push(...batch.writes.map(({ payload }) => String(payload)));
    return append.call(store, batch);
  };
  await session.calls(message, [charge]);
  store.append = append;
  if (payloads.length !== 2) throw new Error(`the ledger wrote ${payloads.length} times around one call`);
  return payloads;
}
