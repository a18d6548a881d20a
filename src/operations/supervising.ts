/** One look at what nobody holds any more. The loop around it belongs to whoever keeps a process for it. */

import * as z from "zod";
import type { Holdfast } from "../open.ts";
import { superviseOnce } from "../supervisor/index.ts";
import { operation } from "./operation.ts";

const text = z.string();

const ENDED = ["completed", "failed", "cancelled"] as const;

/** Removes sessions that ended longer ago; what has open calls or an owner is spared. Returns what went. */
export async function retain(holdfast: Holdfast, retainMs: number): Promise<string[]> {
  const gone: string[] = [];
  for (const status of ENDED) {
    const { removed, hidden } = await holdfast.sessions.prune({ status, olderThanMs: retainMs });
    gone.push(...removed, ...hidden);
  }
  return gone;
}

export const supervising = [
  operation({
    name: "supervise",
    about: "Look once after what was left: mark crashed sessions, put stuck tasks back, list open calls",
    who: "person",
    writes: true,
    input: z.strictObject({
      staleAfterMs: z.int().positive().optional(),
      /** Also remove sessions that ended longer ago than this. */
      retainMs: z.int().positive().optional(),
    }),
    result: z.strictObject({
      crashed: z.array(text),
      reset: z.array(z.strictObject({ goal: text, task: text })),
      open: z.array(z.strictObject({ session: text, call: text, tool: text })),
      errors: z.array(z.strictObject({ doing: text, error: text })),
      removed: z.array(text),
    }),
    async run(context, { staleAfterMs, retainMs }) {
      const holdfast = await context.holdfast();
      const { journal } = holdfast;
      const name = context.by.name;
      const report = await superviseOnce(journal, {
        name,
        ...(staleAfterMs !== undefined && { staleAfterMs }),
      });
      // A sealed store has nothing to write where nothing is left lying, and would seem to be well.
      await context.tellMoved();
      return {
        crashed: [...report.crashed],
        reset: report.reset.map(({ goal, task }) => ({ goal, task })),
        open: report.open.map(({ session, callId, tool }) => ({ session, call: callId, tool })),
        errors: report.errors.map(({ doing, error }) => ({ doing, error: String(error) })),
        removed: retainMs === undefined ? [] : await retain(holdfast, retainMs),
      };
    },
  }),
];
