/**
 * Calls that another run of the session left without an outcome: its process was killed in them. The next question must
 * not be asked before they have one, and the run that asked for them may never come again. So the tools of this
 * program take them up, each as its own run would have: it verifies, repeats with the same key, or asks a person.
 *
 *     a tool of its name is here ──▶ taken up, with the arguments that are on record
 *     it refuses these arguments now, or there is none ──▶ a person, or a program that has the tool again
 *
 * Calls that this program's framework has itself run or is running are none of these, and nor are those that were made
 * with `session.call`: whoever made them comes back for them.
 */

import type { Tool } from "../../ledger/index.ts";
import type { Call } from "../../model/session/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";

/** Runs a recorded call to an outcome, as far as one can be found. False where the tool refuses its arguments. */
export type TakeUp = (call: Call) => Promise<boolean>;

export class LeftCalls {
  private readonly session: Session;
  private readonly isOwn: (callId: string) => boolean;
  private readonly tools = new Map<string, TakeUp>();
  private readonly takenUp = new Set<string>();

  constructor(session: Session, isOwn: (callId: string) => boolean) {
    this.session = session;
    this.isOwn = isOwn;
  }

  /** A tool of this program. The same name again replaces it. */
  know(tool: string, takeUp: TakeUp): void {
    this.tools.set(tool, takeUp);
  }

  /** A program that has named none of its tools yet cannot say that it has none for such a call. */
  get lacksTools(): boolean {
    return this.tools.size === 0 && this.undecided.some((call) => this.isLeft(call));
  }

  async settle(): Promise<void> {
    const { session } = this;
    const left = session.openCalls.filter(
      (call) => (call.status !== "waiting" || call.lacksTool) && this.isLeft(call),
    );
    await Promise.all(left.map((call) => this.takeUp(call)));
    const { undecided } = this;
    if (undecided.length > 0 && undecided.every((call) => this.isLeft(call) && !this.takenUp.has(call.id)))
      await session.settle([...this.tools.keys()].map(refusing));
  }

  private get undecided(): Call[] {
    return this.session.openCalls.filter(({ status }) => status !== "waiting");
  }

  private isLeft({ id }: Call): boolean {
    return this.takenUp.has(id) || (sessionCore(this.session).state.callSlots.has(id) && !this.isOwn(id));
  }

  private async takeUp(call: Call): Promise<void> {
    const takeUp = this.tools.get(call.tool);
    if (!takeUp) return;
    this.takenUp.add(call.id);
    if (!(await takeUp({ ...call }))) this.takenUp.delete(call.id);
  }
}

/** Stands for a tool that is here and has refused a call's arguments: that is what a person reads of it. */
function refusing(name: string): Tool {
  const issues = [{ message: "the tool refuses it" }];
  return {
    name,
    description: name,
    effect: "mutate",
    input: { "~standard": { version: 1, vendor: "holdfast", validate: () => ({ issues }) } },
    execute: () => Promise.reject(new Error(`${name} is not to be run`)),
  };
}
