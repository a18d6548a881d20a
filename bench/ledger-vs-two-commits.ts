/**
 * The cost of the ledger around one mutating call: the intent before it, the outcome after it. The floor is
 * two raw commits of the same rows, including the JSON text that both must make. The assistant message that
 * asks for the call is durable before, in both cases, and not timed.
 */

import { type Holdfast, type Message, type Session, type Tool, tool } from "../src/index.ts";
import type { Measure } from "./measure.ts";
import { type Commit, recordCommits } from "./replay.ts";
import { alternate, perItem, ratio } from "./rounds.ts";
import { anything } from "./schema.ts";
import type { Scratch } from "./scratch.ts";
import { prose, random } from "./turns.ts";

/** Enough that the median does not depend on one moment of the disk. */
const ROUNDS = 800;
/** Calls before the first timed one. Until then most of the time goes into compiling. */
const WARM_CALLS = 4000;
/** The message, the intent, the outcome. */
const COMMITS_PER_CALL = 3;

const charge = tool({
  name: "charge",
  description: "Charges a customer.",
  input: anything,
  effect: "mutate",
  execute: (args) => ({ receipt: "receipt-4711", args }),
}) as unknown as Tool;

export const ledgerVsTwoCommits: Measure = {
  name: "ledgerVsTwoCommits",
  what: "the ledger around one mutating call, against two raw commits of the same rows",
  bar: 1.3,
  direction: "at most",
  async run(scratch) {
    const commits = await recordCalls(scratch);
    const replay = await scratch.openReplay();
    const first = commits.length - ROUNDS * COMMITS_PER_CALL;
    for (const commit of commits.slice(0, first)) replay.commit(commit);
    const session = await warmSession(scratch, await scratch.openOurs());
    const commitOf = (round: number, index: number) =>
      commits[first + round * COMMITS_PER_CALL + index] ?? [];
    const said = Array.from({ length: ROUNDS }, (_, round) =>
      [1, 2].map((index) => payloadsOf(commitOf(round, index))),
    );
    let message: Message;
    const rounds = await alternate(
      ROUNDS,
      (round) => {
        for (const index of [1, 2]) {
          for (const value of said[round]?.[index - 1] ?? []) JSON.stringify(value);
          replay.commit(commitOf(round, index));
        }
      },
      () => session.calls(message, [charge]),
      async (round) => {
        replay.commit(commitOf(round, 0));
        message = await ask(session, round);
      },
    );
    const rows = commitOf(0, 1).length + commitOf(0, 2).length;
    return { value: ratio(rounds), numbers: { ...perItem(rounds, 1), rows } };
  },
};

/** The parsed payloads of the rows of the log. */
function payloadsOf(commit: Commit): unknown[] {
  const logged = commit.filter(({ sql }) => sql.startsWith("INSERT INTO writes"));
  if (logged.length !== 1) throw new Error(`a commit of the ledger has ${logged.length} rows of the log`);
  return logged.map(({ values }) => JSON.parse(String(values.at(-1))));
}

async function warmSession(scratch: Scratch, holdfast: Holdfast): Promise<Session> {
  await scratch.warmUp(holdfast);
  const session = await holdfast.session("ledger");
  for (let call = 1; call <= WARM_CALLS; call++) {
    await session.calls(await ask(session, ROUNDS + call), [charge]);
  }
  return session;
}

/** The last commits are those of the timed rounds, three each. */
async function recordCalls(scratch: Scratch): Promise<Commit[]> {
  const holdfast = await scratch.openOurs();
  let before = 0;
  const commits = await recordCommits(async (soFar) => {
    const session = await warmSession(scratch, holdfast);
    before = soFar();
    for (let round = 0; round < ROUNDS; round++) await session.calls(await ask(session, round), [charge]);
  });
  const made = commits.length - before;
  if (made !== ROUNDS * COMMITS_PER_CALL) throw new Error(`${ROUNDS} calls made ${made} commits`);
  return commits;
}

function ask(session: Session, round: number): Promise<Message> {
  const args = { customer: `customer-${round}`, cents: 1999, note: prose(random(round + 1), 300) };
  const call = { kind: "tool_call", id: `call-${round}`, name: charge.name, args } as const;
  return session.append({ id: `ask-${round}`, role: "assistant", blocks: [call] });
}
