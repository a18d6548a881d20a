import type { ChildSession, ExecuteContext, StandardSchema, ToolSpec } from "../ledger/index.ts";
import { DefiniteFailure, NotFinished, never, tool } from "../ledger/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { type Amounts, messageText } from "../model/session/index.ts";
import type { RunResult } from "./run-options.ts";
import { type Session, sessionCore } from "./session.ts";

/** The options of `agentTool`: a tool as the parent's model sees it, and the run that does its work. */
export interface AgentToolSpec<Args, Input = unknown> {
  readonly name: string;
  readonly description: string;
  readonly input: StandardSchema<Input, Args>;
  /** The parameters that the parent's model reads, if not those of `input`. */
  readonly inputJsonSchema?: Json;
  /** The most it may spend of its parent's budget, e.g. `{ usd: 1 }`. All that is left unless set. */
  readonly budget?: Amounts;
  /**
   * Runs the sub-agent in its own session, after a crash again. Prompts it has put before, with the same
   * words or the same id, are answered from the log, so they must not contain the time.
   *
   * @example
   * run: ({ topic }, child) => child.run({ model, tools, prompt: `Research ${topic}.` }),
   */
  readonly run: (args: Args, child: Session, context: ExecuteContext) => Promise<RunResult>;
}

/** The result the parent's model sees: the answer and the sub-agent's session. */
export interface AgentToolResult {
  readonly text: string;
  readonly session: string;
}

/**
 * Makes a tool that is an agent. A crash resumes it instead of leaving the call unknown. It spends its
 * parent's budget and stops when its parent is cancelled. While it waits for a person, so does its parent.
 *
 * @example
 * const research = agentTool({
 *   name: "research",
 *   description: "Researches a topic.",
 *   input: z.object({ topic: z.string() }),
 *   run: ({ topic }, child) => child.run({ model, tools: [search], prompt: `Research ${topic}.` }),
 * });
 */
export function agentTool<Args, Input = unknown>(
  spec: AgentToolSpec<Args, Input>,
): ToolSpec<Args, AgentToolResult, Input> {
  const { name, description, input, inputJsonSchema } = spec;
  return tool({
    name,
    description,
    input,
    ...(inputJsonSchema !== undefined && { inputJsonSchema }),
    effect: "mutate",
    // All its effects are in its own session's ledger, and the next attempt continues that.
    verify: () => never(),
    // An error of its model or of one of its tools does not undo what it did before.
    definite: () => false,
    execute: async (args, context) => {
      const { session, finished } = await openChild(context, spec.budget);
      const child = session as Session;
      try {
        // Completed already if a crash came between its answer and the record of this call.
        const isDone = child.status === "completed";
        const last = child.messages.at(-1);
        const text = isDone
          ? last && messageText(last)
          : await answer(child, () => spec.run(args, child, context));
        if (child.status !== "completed") await child.complete();
        finished();
        return { text: text ?? "", session: child.id };
      } catch (error) {
        // The call ends here, at the cost of what was spent so far.
        if (error instanceof DefiniteFailure) finished();
        throw error;
      } finally {
        await child.close();
      }
    },
  });
}

async function answer(child: Session, run: () => Promise<RunResult>): Promise<string> {
  sessionCore(child).promptCounts = new Map();
  const result = await run().catch((error: unknown) => {
    // None of the answer's calls has started. Another attempt would only ask its model again.
    if (!isHoldfastError(error, "BUDGET_UNIT_UNKNOWN")) throw error;
    throw new DefiniteFailure(error.message, { cause: error });
  });
  if (result.status === "done") return result.text;
  if (child.status === "cancelled") throw new DefiniteFailure(`sub-agent ${child.id} was cancelled`);
  const asked = result.waiting.filter(({ person }) => person);
  if (asked.length === 0)
    throw new NotFinished(`sub-agent ${child.id} is ${result.status}: ${result.reason}`);
  const calls = asked.map(({ callId, tool, why }) => `${tool} ${callId}: ${why}`).join("; ");
  throw new NotFinished(`sub-agent ${child.id} waits for a person: ${calls}`, { person: true });
}

/** A sub-agent that may not start has done nothing, unless this is not its first attempt. */
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
