/**
 * Operations on tasks. Every command is a new process, so a claim is detached from it: the claim lasts half
 * an hour after each write of its holder. The caller's name (and session) proves who holds it.
 *
 * A claim belongs to the named session, else to the only active session of the caller's name, and returns
 * when that session ends. With two active sessions of one name, the claim belongs to none.
 */

import * as z from "zod";
import type { ClaimProof, Goal, TaskInput } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { findTask, formatId, type GoalState, TASK_PLAN } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { redactSecrets } from "../model/secrets.ts";
import type { Context } from "./context.ts";
import { goal } from "./goal-operations.ts";
import * as view from "./goal-views.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { projectPath } from "./project-files.ts";
import { inputShape } from "./record-views.ts";

const text = z.string();
const named = z.strictObject({ goal, task: text });
const byHolder = named.extend({ session: text.optional() });
const result = view.task.extend({ goal: text });
type Result = z.input<typeof result>;

/** `T-014` may be typed as `t-14` or `14`. */
export function itemId(prefix: "T" | "B" | "D" | "Q" | "A", typed: string): string {
  const digits = new RegExp(`^(?:${prefix}-?)?(\\d+)$`, "i").exec(typed)?.[1];
  return digits === undefined ? typed : formatId(prefix, Number(digits));
}

function requireTask({ state }: Pick<Goal, "state">, typed: string): string {
  const id = itemId("T", typed);
  if (findTask(state, id)) return id;
  throw missingItem(state, "task", typed, didYouMean(id, state.tasks.keys()), "task list --all");
}

export function missingItem(
  { id: goal }: GoalState,
  what: string,
  typed: string,
  guess: string,
  list: string,
): HoldfastError {
  return new HoldfastError("GOAL_ITEM_NOT_FOUND", `goal ${goal}: there is no ${what} ${typed}`, {
    hint: `${guess}List them: holdfast ${list}`,
    data: { goal, what, id: typed },
  });
}

function resultOf(handle: Goal, id: string): Result {
  return { goal: handle.id, ...view.taskView(handle.task(id), handle.state, handle.survey()) };
}

/** A review's checklist: the given one, else the acceptance criteria of the reviewed tasks. */
function checklistOf({ state }: Goal, reviews: readonly string[], wanted: readonly string[]): string[] {
  if (wanted.length > 0) return [...wanted];
  return reviews.flatMap((id) => {
    const task = findTask(state, id);
    if (!task) return [`${id} is done`];
    const own = task.kind === "build" ? task.acceptance : task.checklist;
    return own.length > 0 ? own : [`${task.id} does what its title says`];
  });
}

async function onTask(
  context: Context,
  input: z.output<typeof named> & { session?: string | undefined },
  act: (handle: Goal, proof: ClaimProof & { task: string }) => Promise<unknown>,
): Promise<Result> {
  const handle = await context.goal(input.goal);
  const task = requireTask(handle, input.task);
  await act(handle, definedFields({ task, session: input.session }));
  return resultOf(handle, task);
}

async function claim(handle: Goal, { task, session }: ClaimProof): Promise<void> {
  await handle.claim(task, { session: session ?? sessionFor(await handle.refresh(), task), detached: true });
}

function sessionFor({ state, by: { name } }: Goal, task: string): string | null {
  const held = findTask(state, task)?.claim;
  // The caller claimed it before the session began. This is the same claim, not a rival one.
  if (held?.by.name === name && held.session === null) return null;
  const sessions = [...state.history.values()];
  const [only, other] = sessions.filter(({ status, agent }) => status === "active" && agent === name);
  return only && !other ? only.id : null;
}

function nothingToEdit(task: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `task ${task}: nothing to change`, {
    hint: "Name what should change, such as --title or --after.",
    data: { task },
  });
}

function withReason<const Name extends string>(name: Name, about: string, act: "retry" | "drop" | "reopen") {
  return mutation(name, about, {
    input: named.extend({ why: text }),
    result,
    run: (context, { why, ...input }) =>
      onTask(context, input, (handle, { task }) => handle[act]({ task, why })),
  });
}

export const taskOperations = [
  mutation("task add", "Add a task to a goal", {
    input: z.strictObject({
      goal,
      ...inputShape(TASK_PLAN),
      phase: z.union([z.int(), text]).optional(),
      /** Acceptance criteria. A review without them uses those of its tasks. */
      wanted: z.array(text).optional(),
      reviews: z.array(text).optional(),
    }),
    result,
    async run(context, { goal: id, wanted = [], reviews, dependsOn = [], files: typed = [], ...input }) {
      const files = typed.map((each) => projectPath(context, each));
      const handle = await context.goal(id);
      const place = { ...definedFields(input), files, dependsOn: dependsOn.map((each) => itemId("T", each)) };
      const reviewed = reviews?.map((each) => itemId("T", each));
      const task: TaskInput = reviewed
        ? { ...place, kind: "review", reviews: reviewed, checklist: checklistOf(handle, reviewed, wanted) }
        : { ...place, acceptance: wanted };
      return resultOf(handle, (await handle.addTask(task)).id);
    },
  }),
  query("task show", "Show a task: acceptance criteria, holder, history", {
    input: named,
    result,
    async run(context, input) {
      const handle = await context.readGoal(input.goal);
      return resultOf(handle, requireTask(handle, input.task));
    },
  }),
  mutation("task claim", "Claim a task; the claim lasts half an hour after each of your writes", {
    input: byHolder,
    result,
    run: (context, input) => onTask(context, input, claim),
  }),
  mutation("task start", "Claim a task unless it is yours already, and note what you are doing", {
    input: byHolder.extend({ note: text.optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, async (handle, proof) => {
        if (handle.task(proof.task).claim?.by.name !== context.by.name) await claim(handle, proof);
        await handle.noteProgress({ ...proof, note: input.note ?? "started" });
      }),
  }),
  mutation("task submit", "Submit a task, with evidence that it is done", {
    input: byHolder.extend({
      summary: text.optional(),
      files: z.array(text).optional(),
      commands: z
        .array(z.strictObject({ command: text, exitCode: z.int(), output: text.optional() }))
        .optional(),
    }),
    result,
    run: (context, { goal: id, task, session, commands, files: typed, summary }) =>
      onTask(context, { goal: id, task, session }, (handle, proof) => {
        const files = typed?.map((each) => projectPath(context, each));
        // Evidence goes to git by `.planning/`, and a command line often carries a key.
        const ran = commands?.map(({ command, output, exitCode }) =>
          definedFields({
            command: redactSecrets(command),
            exitCode,
            output: output && redactSecrets(output),
          }),
        );
        const said = summary === undefined ? undefined : redactSecrets(summary);
        const evidence = definedFields({ summary: said, files, commands: ran });
        return handle.submit({ ...proof, ...evidence });
      }),
  }),
  mutation("task verify", "Accept a submitted task, or reject it with a reason", {
    input: named.extend({ accept: z.boolean(), why: text.optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, (handle, { task }) =>
        handle.verify({ task, accept: input.accept, why: input.why ?? null }),
      ),
  }),
  mutation("task fail", "Report that a task failed, and whether a retry can help", {
    input: byHolder.extend({ error: text, retryable: z.boolean().optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, (handle, proof) =>
        handle.fail({ ...proof, error: redactSecrets(input.error), retryable: input.retryable ?? true }),
      ),
  }),
  mutation("task block", "Record what blocks a task; if it is yours, it is released", {
    input: byHolder.extend({ description: text }),
    result,
    run: (context, input) =>
      onTask(context, input, async (handle, proof) => {
        const { description } = input;
        const isOurs = handle.task(proof.task).claim?.by.name === context.by.name;
        if (isOurs) await handle.blockTask({ ...proof, description });
        else await handle.block({ description, affects: { tasks: [proof.task] } });
      }),
  }),
  mutation("task release", "Release a task; with force, also one that another agent holds", {
    input: byHolder.extend({ why: text.optional(), force: z.boolean().optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, async (handle, proof) => {
        const why = input.why ?? null;
        if (input.force) {
          const reason = why ?? `released by ${context.by.name}`;
          await handle.reset({ task: proof.task, why: reason, force: true });
        } else await handle.release({ ...proof, why });
      }),
  }),
  mutation("task edit", "Change a task: its text, place, dependencies, files or acceptance criteria", {
    input: named.extend({
      ...z.strictObject(inputShape(TASK_PLAN)).partial().shape,
      phase: z.union([z.int(), text]).optional(),
      /** Replaces the acceptance criteria, or the checklist of a review. */
      wanted: z.array(text).optional(),
      reviews: z.array(text).optional(),
    }),
    result,
    run: (context, { goal: id, task: typed, wanted, reviews, dependsOn, files, ...rest }) =>
      onTask(context, { goal: id, task: typed }, (handle, { task }) => {
        const criteria = handle.task(task).kind === "review" ? "checklist" : "acceptance";
        const change = definedFields({
          ...rest,
          files: files?.map((each) => projectPath(context, each)),
          dependsOn: dependsOn?.map((each) => itemId("T", each)),
          reviews: reviews?.map((each) => itemId("T", each)),
          [criteria]: wanted,
        });
        if (Object.keys(change).length === 0) throw nothingToEdit(task);
        return handle.editTask({ task, change });
      }),
  }),
  mutation("task alias", "Give a task another id as well, such as the one it has in another list: T-142", {
    input: named.extend({ alias: text }),
    result,
    run: (context, { alias, ...input }) =>
      onTask(context, input, (handle, { task }) => handle.aliasTask({ task, alias })),
  }),
  withReason("task retry", "Retry a failed task, with the reason why that can help now", "retry"),
  withReason("task drop", "Drop a task, with a reason; it counts as finished", "drop"),
  withReason("task reopen", "Reopen a done or dropped task, with a reason", "reopen"),
];
