/**
 * Bugs for the tests of the demo: with one of them planted it must end with exit code 1, or its last line would
 * prove nothing. Nobody else sets the switch.
 */

import type { Session, Tool } from "../src/index.ts";

export async function plantBug(tools: Tool[], session: Session): Promise<Tool[]> {
  const bugs = process.env["HOLDFAST_DEMO_PLANT"]?.split(" ") ?? [];
  // A turn that was answered but not finished is forgotten: the model is asked for it again.
  if (bugs.includes("turn-asked-again") && session.unfinished) {
    await session.compact(session.messages.slice(0, -1));
  }
  // Mails pass for reads: they go out before anything is on record, and again when the turn is resumed.
  if (!bugs.includes("issue-after-effect")) return tools;
  return tools.map((each) => (each.name === "send_mail" ? { ...each, effect: "read" } : each));
}
