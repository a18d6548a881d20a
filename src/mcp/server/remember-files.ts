/** Files that an agent has read or changed, with their hashes: the next one is told which of them are not what they were. */

import * as z from "zod";
import type { Operation } from "../../operations/index.ts";

const text = z.string();
const input = z.strictObject({
  goal: text.optional(),
  files: z.array(z.strictObject({ path: text, act: z.enum(["examined", "modified", "deleted"]) })).min(1),
  task: text.optional(),
  session: text.optional(),
});

export const rememberFiles: Operation = {
  name: "remember files",
  about: "Record files that you read, changed or deleted, as they are on disk now",
  who: "both",
  writes: true,
  input,
  result: z.strictObject({ goal: text, files: z.array(text) }),
  async run(context, said) {
    const { goal: id, files, task = null, session = null } = said as z.output<typeof input>;
    const goal = await context.goal(id);
    await goal.recordFiles({ files, task, session });
    return { goal: goal.id, files: files.map(({ path }) => path) };
  },
};
