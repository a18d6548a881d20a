/**
 * Bugs for the tests of the demo. With one of them planted the demo must end with exit code 1; otherwise
 * its last line would prove nothing. Only those tests set the switch.
 */

import type { Session, Tool } from "../src/index.ts";

export async function plantBug(tools: Tool[], session: Session): Promise<Tool[]> {
  const bugs = process.env["HOLDFAST_DEMO_PLANT"]?.split(" ") ?? [];
  // An unfinished turn is forgotten: the model is asked for it again.
  if (bugs.includes("turn-asked-again") && session.unfinished) {
    await session.compact(session.messages.slice(0, -1));
  }
  // Mails are declared as reads: they are sent before anything is recorded, and again when the turn is
  // resumed.
  if (!bugs.includes("issue-after-effect")) return tools;
  return tools.map((each) => (each.name === "send_mail" ? { ...each, effect: "read" } : each));
}
