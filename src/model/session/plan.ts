import * as z from "zod";

/** What an agent means to do, how it will know that a step is done, and what showed that it was. */
export interface PlanStep {
  readonly id: string;
  readonly description: string;
  readonly status: "pending" | "in_progress" | "done" | "skipped" | "failed";
  readonly postconditions: readonly string[];
  readonly evidence: readonly string[];
}

/** A session's plan; versions keep the plan as it then was. */
export interface Plan {
  readonly title?: string;
  readonly steps: readonly PlanStep[];
}

export const planSchema = z.lazy(() =>
  z.strictObject({
    title: z.string().optional(),
    steps: z.array(
      z.strictObject({
        id: z.string().min(1),
        description: z.string(),
        status: z.enum(["pending", "in_progress", "done", "skipped", "failed"]),
        postconditions: z.array(z.string()),
        evidence: z.array(z.string()),
      }),
    ),
  }),
) as unknown as z.ZodType<Plan>;
