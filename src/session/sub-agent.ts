import { type ExecuteContext, NotFinished, type StandardSchema, type ToolSpec } from "../ledger/index.ts";
import type { Amounts, Json } from "../model/index.ts";
import type { RunResult } from "./run-options.ts";
import type { Session } from "./session.ts";

export interface AgentToolSpec<Args> {
  readonly name: string;
  readonly description: string;
  readonly input: StandardSchema<unknown, Args>;
  readonly inputJsonSchema?: Json;
  /** What the sub-agent may spend of its parent's budget. All that is left unless set. */
  readonly budget?: Amounts;
  /** Runs the sub-agent in its own session, which is the same one after a crash. */
  readonly run: (args: Args, child: Session, context: ExecuteContext) => Promise<RunResult>;
}

export interface AgentToolResult {
  readonly text: string;
  readonly session: string;
}

/**
 * A tool that is an agent. Its session is named by the call, so a crash resumes it instead of leaving the call
 * unknown; it spends its parent's budget, stops when its parent is cancelled, and while it waits for a person, so
 * does its parent.
 */
export function agentTool<Args>(spec: AgentToolSpec<Args>): ToolSpec<Args, AgentToolResult> {
  const { name, description, input, inputJsonSchema } = spec;
  return {
    name,
    description,
    input,
    ...(inputJsonSchema !== undefined && { inputJsonSchema }),
    effect: "mutate",
    // Taking up its session again is what a retry does: finished calls of the sub-agent are not run again.
    idempotent: true,
    execute: async (args, context) => {
      const { session, finished } = await context.child(spec.budget);
      const child = session as Session;
      try {
        const result = await spec.run(args, child, context);
        if (result.status !== "done")
          throw new NotFinished(`sub-agent ${child.id} is ${result.status}: ${result.reason}`);
        await child.complete();
        finished();
        return { text: result.text, session: child.id };
      } finally {
        await child.close();
      }
    },
  };
}
