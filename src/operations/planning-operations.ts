/** Operations on the plan of a goal: its settings, phases, plans, and the next action. */

import * as z from "zod";
import { phaseNumber } from "../goal/index.ts";
import { phaseOf, VERIFICATIONS } from "../model/goal/index.ts";
import { goal } from "./goal-operations.ts";
import { definedFields, mutation } from "./operation.ts";
import { PLANNING } from "./store-place.ts";
import { itemId } from "./task-operations.ts";

const text = z.string();
/** By number or name. */
const phase = z.union([z.int(), text]);
const phaseResult = z.strictObject({ goal: text, phase: z.int(), name: text, plans: z.array(text) });

export const planningOperations = [
  mutation("goal edit", "Change a goal's statement, title or settings", {
    input: z.strictObject({
      goal,
      statement: text.optional(),
      title: text.nullable().optional(),
      ttlMs: z.int().positive().nullable().optional(),
      verification: z.enum(VERIFICATIONS).optional(),
      maxAttempts: z.int().positive().optional(),
    }),
    result: z.strictObject({
      goal: text,
      statement: text,
      title: text.nullable(),
      ttlMs: z.int().nullable(),
      verification: z.enum(VERIFICATIONS),
      maxAttempts: z.int(),
    }),
    async run(context, { goal: id, ...change }) {
      const handle = await context.goal(id);
      await handle.describe(definedFields(change));
      const { statement, title, ttlMs, verification, maxAttempts } = handle.state;
      return { goal: handle.id, statement, title, ttlMs, verification, maxAttempts };
    },
  }),
  mutation("goal next", "Set the next action of a goal: a task or words; with `none`, clear it", {
    input: z.strictObject({ goal, next: text.optional(), none: z.boolean().optional() }),
    result: z.strictObject({ goal: text, task: text.nullable(), text: text.nullable() }),
    async run(context, { goal: id, next, none = false }) {
      const handle = await context.goal(id);
      if (none || next !== undefined) {
        await handle.setNext({ next: none || next === undefined ? null : itemId("T", next) });
      }
      const { task = null, text: words = null } = handle.state.next ?? {};
      return { goal: handle.id, task, text: words };
    },
  }),
  mutation("phase add", "Add a phase after the existing ones, with its plans", {
    input: z.strictObject({ goal, name: text, plans: z.array(text).optional() }),
    result: phaseResult,
    async run(context, { goal: id, ...input }) {
      const handle = await context.goal(id);
      const { number, name, plans } = phaseOf(handle.state, await handle.addPhase(definedFields(input)));
      return { goal: handle.id, phase: number, name, plans: plans.map((each) => each.name) };
    },
  }),
  mutation("phase complete", "Complete a phase; refused while one of its tasks is unfinished", {
    input: z.strictObject({ goal, phase }),
    result: phaseResult,
    async run(context, input) {
      const handle = await context.goal(input.goal);
      const completed = await handle.completePhase({ phase: input.phase });
      const { number, name, plans } = phaseOf(handle.state, completed);
      return { goal: handle.id, phase: number, name, plans: plans.map((each) => each.name) };
    },
  }),
  mutation("plan add", "Add a plan to a phase, for tasks that belong together", {
    input: z.strictObject({ goal, phase, name: text }),
    result: z.strictObject({
      goal: text,
      phase: z.int(),
      plan: z.int(),
      name: text,
      /** Where `resume` looks for the text of the plan. */
      file: text,
    }),
    async run(context, { goal: id, ...input }) {
      const handle = await context.goal(id);
      const plan = await handle.addPlan(input);
      const number = phaseNumber(handle.state, input.phase);
      const file = `${PLANNING}/${number}-${plan}-PLAN.md`;
      return { goal: handle.id, phase: number, plan, name: input.name, file };
    },
  }),
];
