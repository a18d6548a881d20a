/**
 * Working on tasks. A caller here comes and goes with every command, so a claim is detached from its process: it lasts
 * half an hour after each write of whoever claimed it, and the name (and session) of the caller is the proof.
 *
 * A claim belongs to the session that is said, else to the only active one under the caller's name, so that it goes back
 * when that session ends. Of two sessions under one name none is guessed: the claim is then of no session.
 */

import * as z from "zod";
import type { ClaimProof, Goal, TaskInput } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { findTask, formatId, TASK_PLAN } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import type { Context } from "./context.ts";
import { goal } from "./goal-operations.ts";
import * as view from "./goal-views.ts";
import { definedFields, operation } from "./operation.ts";
import { projectPath } from "./project-files.ts";
import { inputShape } from "./record-views.ts";

const text = z.string();
const said = z.strictObject({ goal, task: text });
const worked = said.extend({ session: text.optional() });
const decided = said.extend({ why: text });
const result = view.task.extend({ goal: text });
type Result = z.input<typeof result>;

/** `T-014` may be typed as `t-14` or `14`. */
export function itemId(prefix: "T" | "B" | "D", typed: string): string {
  const digits = new RegExp(`^(?:${prefix}-?)?(\\d+)$`, "i").exec(typed)?.[1];
  return digits === undefined ? typed : formatId(prefix, Number(digits));
}

function taskIn(handle: Pick<Goal, "state">, typed: string): string {
  const id = itemId("T", typed);
  if (findTask(handle.state, id)) return id;
  throw new HoldfastError("GOAL_ITEM_NOT_FOUND", `goal ${handle.state.id} has no task ${typed}`, {
    hint: `${didYouMean(id, handle.state.tasks.keys())}List them: holdfast task list --all`,
    data: { goal: handle.state.id, what: "task", id: typed },
  });
}

function shown(handle: Goal, id: string): Result {
  return { goal: handle.id, ...view.taskView(handle.task(id), handle.survey()) };
}

/** What a review looks at: what was said, else what was wanted of the tasks themselves. */
function checklistOf({ state }: Goal, reviews: readonly string[], wanted: readonly string[]): string[] {
  if (wanted.length > 0) return [...wanted];
  return reviews.flatMap((id) => {
    const task = findTask(state, id);
    if (!task) return [`${id} is done`];
    const own = task.kind === "build" ? task.acceptance : task.checklist;
    return own.length > 0 ? own : [`${task.id} is done as its title says`];
  });
}

async function onTask(
  context: Context,
  input: z.output<typeof said> & { session?: string | undefined },
  act: (handle: Goal, proof: ClaimProof & { task: string }) => Promise<unknown>,
): Promise<Result> {
  const handle = await context.goal(input.goal);
  const task = taskIn(handle, input.task);
  await act(handle, definedFields({ task, session: input.session }));
  return shown(handle, task);
}

async function claim(handle: Goal, { task, session }: ClaimProof): Promise<void> {
  await handle.claim(task, { session: session ?? sessionFor(await handle.refresh(), task), detached: true });
}

function sessionFor({ state, by: { name } }: Goal, task: string): string | null {
  const held = findTask(state, task)?.claim;
  // Claimed before the session began: the same claim again, not one that the first keeps off.
  if (held?.by.name === name && held.session === null) return null;
  const sessions = [...state.history.values()];
  const [only, other] = sessions.filter(({ status, agent }) => status === "active" && agent === name);
  return only && !other ? only.id : null;
}

export const taskOperations = [
  operation({
    name: "task add",
    about: "Add a task to a goal",
    who: "both",
    writes: true,
    input: z.strictObject({
      goal,
      ...inputShape(TASK_PLAN),
      phase: z.union([z.int(), text]).optional(),
      /** How one will know that it is done. A review without it looks at what its tasks were wanted for. */
      wanted: z.array(text).optional(),
      /** Tasks to look at: makes it a review. */
      reviews: z.array(text).optional(),
    }),
    result,
    async run(context, { goal: id, wanted = [], reviews, dependsOn = [], files: typed = [], ...input }) {
      const files = typed.map((each) => projectPath(context, each));
      const handle = await context.goal(id);
      const place = { ...definedFields(input), files, dependsOn: dependsOn.map((each) => itemId("T", each)) };
      const looked = reviews?.map((each) => itemId("T", each));
      const task: TaskInput = looked
        ? { ...place, kind: "review", reviews: looked, checklist: checklistOf(handle, looked, wanted) }
        : { ...place, acceptance: wanted };
      return shown(handle, (await handle.addTask(task)).id);
    },
  }),
  operation({
    name: "task show",
    about: "One task: what is wanted, who has it, what happened to it",
    who: "both",
    writes: false,
    input: said,
    result,
    async run(context, input) {
      const handle = await context.readGoal(input.goal);
      return shown(handle, taskIn(handle, input.task));
    },
  }),
  operation({
    name: "task claim",
    about: "Take a task; others are kept off it for half an hour after each of your writes",
    who: "both",
    writes: true,
    input: worked,
    result,
    run: (context, input) => onTask(context, input, claim),
  }),
  operation({
    name: "task start",
    about: "Take a task if it is not yours yet, and note what you are at",
    who: "both",
    writes: true,
    input: worked.extend({ note: text.optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, async (handle, proof) => {
        if (handle.task(proof.task).claim?.by.name !== context.by.name) await claim(handle, proof);
        await handle.noteProgress({ ...proof, note: input.note ?? "started" });
      }),
  }),
  operation({
    name: "task submit",
    about: "Hand in a task, with what shows that it is done",
    who: "both",
    writes: true,
    input: worked.extend({
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
        return handle.submit({
          ...proof,
          ...definedFields({ summary, files, commands: commands?.map(definedFields) }),
        });
      }),
  }),
  operation({
    name: "task verify",
    about: "Accept what was handed in, or reject it and say why",
    who: "both",
    writes: true,
    input: said.extend({ accept: z.boolean(), why: text.optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, (handle, { task }) =>
        handle.verify({ task, accept: input.accept, why: input.why ?? null }),
      ),
  }),
  operation({
    name: "task fail",
    about: "Say that a task failed, and whether trying again can help",
    who: "both",
    writes: true,
    input: worked.extend({ error: text, retryable: z.boolean().optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, (handle, proof) =>
        handle.fail({ ...proof, error: input.error, retryable: input.retryable ?? true }),
      ),
  }),
  operation({
    name: "task block",
    about: "Record what keeps a task from going on; if it is yours, it goes back",
    who: "both",
    writes: true,
    input: worked.extend({ description: text }),
    result,
    run: (context, input) =>
      onTask(context, input, async (handle, proof) => {
        const { description } = input;
        const isOurs = handle.task(proof.task).claim?.by.name === context.by.name;
        if (isOurs) await handle.blockTask({ ...proof, description });
        else await handle.block({ description, affects: { tasks: [proof.task] } });
      }),
  }),
  operation({
    name: "task release",
    about: "Put a task back; with force, also one that another holds",
    who: "both",
    writes: true,
    input: worked.extend({ why: text.optional(), force: z.boolean().optional() }),
    result,
    run: (context, input) =>
      onTask(context, input, async (handle, proof) => {
        const why = input.why ?? null;
        if (input.force) {
          const reason = why ?? `taken back by ${context.by.name}`;
          await handle.reset({ task: proof.task, why: reason, force: true });
        } else await handle.release({ ...proof, why });
      }),
  }),
  operation({
    name: "task retry",
    about: "Let a task that failed be tried again, and say why that can help now",
    who: "both",
    writes: true,
    input: decided,
    result,
    run: (context, { why, ...input }) =>
      onTask(context, input, (handle, { task }) => handle.retry({ task, why })),
  }),
  operation({
    name: "task drop",
    about: "Say that nobody is to do a task any more, and why; it counts as finished",
    who: "both",
    writes: true,
    input: decided,
    result,
    run: (context, { why, ...input }) =>
      onTask(context, input, (handle, { task }) => handle.drop({ task, why })),
  }),
  operation({
    name: "task reopen",
    about: "Say that a task that was done or dropped has to be done again, and why",
    who: "both",
    writes: true,
    input: decided,
    result,
    run: (context, { why, ...input }) =>
      onTask(context, input, (handle, { task }) => handle.reopen({ task, why })),
  }),
];
