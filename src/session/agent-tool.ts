import {
  type ChildSession,
  DefiniteFailure,
  type ExecuteContext,
  NotFinished,
  never,
  type StandardSchema,
  type ToolSpec,
} from "../ledger/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { type Amounts, messageText } from "../model/session/index.ts";
import type { RunResult } from "./run-options.ts";
import { type Session, sessionCore } from "./session.ts";

/** For `agentTool`: a tool as the parent's model sees it, and the run that does its work. */
export interface AgentToolSpec<Args> {
  readonly name: string;
  readonly description: string;
  readonly input: StandardSchema<unknown, Args>;
  readonly inputJsonSchema?: Json;
  /** What the sub-agent may spend of its parent's budget. All that is left unless set. */
  readonly budget?: Amounts;
  /**
   * Runs the sub-agent in its own session, which is the same one after a crash. It is then called again, and
   * prompts that it has put before, in the same words or under the same id, are answered from the record: let
   * them not depend on the time.
   */
  readonly run: (args: Args, child: Session, context: ExecuteContext) => Promise<RunResult>;
}

/** What the parent's model gets: the answer, and in which session it was found. */
export interface AgentToolResult {
  readonly text: string;
  readonly session: string;
}

/**
 * A tool that is an agent. Its session is named by the call, so a crash resumes it instead of leaving the
 * call unknown; it spends its parent's budget, stops when its parent is cancelled, and while it waits for a
 * person, so does its parent.
 */
export function agentTool<Args>(spec: AgentToolSpec<Args>): ToolSpec<Args, AgentToolResult> {
  const { name, description, input, inputJsonSchema } = spec;
  return {
    name,
    description,
    input,
    ...(inputJsonSchema !== undefined && { inputJsonSchema }),
    effect: "mutate",
    // All its effects are in its own session's ledger, which a next attempt takes up; outside of that there
    // are none.
    verify: () => never(),
    // What its model, or a tool of its own, was refused says nothing of what it did before.
    definite: () => false,
    execute: async (args, context) => {
      const { session, finished } = await openChild(context, spec.budget);
      const child = session as Session;
      try {
        // A crash may have come between its answer and our record of it: then the answer is already there.
        const text =
          child.status === "completed" ? finalText(child) : await answer(spec, args, child, context);
        if (child.status !== "completed") await child.complete();
        finished();
        return { text, session: child.id };
      } catch (error) {
        // The call ends here: what it has spent until now is all that it costs.
        if (error instanceof DefiniteFailure) finished();
        throw error;
      } finally {
        await child.close();
      }
    },
  };
}

async function answer<Args>(
  spec: AgentToolSpec<Args>,
  args: Args,
  child: Session,
  context: ExecuteContext,
): Promise<string> {
  sessionCore(child).promptCounts = new Map();
  const result = await spec.run(args, child, context);
  if (result.status === "done") return result.text;
  if (child.status === "cancelled") throw new DefiniteFailure(`sub-agent ${child.id} was cancelled`);
  const asked = result.waiting.filter(({ person }) => person);
  if (asked.length === 0)
    throw new NotFinished(`sub-agent ${child.id} is ${result.status}: ${result.reason}`);
  const calls = asked.map(({ callId, tool, why }) => `${tool} ${callId}: ${why}`).join("; ");
  throw new NotFinished(`sub-agent ${child.id} waits for a person: ${calls}`, { person: true });
}

function finalText(child: Session): string {
  const last = child.messages.at(-1);
  return last ? messageText(last) : "";
}

/** A sub-agent that may not start has done nothing, unless it did something at an earlier attempt. */
async function openChild(context: ExecuteContext, budget: Amounts | undefined): Promise<ChildSession> {
  try {
    return await context.child(budget);
  } catch (error) {
    const isFirst = context.attempt === 1;
    if (isFirst && (isHoldfastError(error, "BUDGET_EXCEEDED") || isHoldfastError(error, "SESSION_ENDED"))) {
      throw new DefiniteFailure(error.message, { cause: error });
    }
    throw error;
  }
}
