/**
 * `goal import`: makes a goal from a STATE.md that another tool or a person wrote.
 *
 * A `.planning/STATE.md` is replaced by the goal's own page afterwards. It is renamed before that, so that it
 * is not mistaken for an edit. A crash in between leaves the goal, and the next sync keeps the file as
 * `STATE.md.unread-…`.
 */

import { existsSync, readFileSync, renameSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import * as z from "zod";
import { positionOf, progressOf } from "../model/goal/index.ts";
import { isId } from "../model/names.ts";
import type { Context } from "./context.ts";
import { mutation } from "./operation.ts";
import { projectPath } from "./project-files.ts";
import { PLANNING, type StorePlace } from "./store-place.ts";

const text = z.string();

export const goalImportOperations = [
  mutation("goal import", "Make a goal from a STATE.md of another tool", {
    input: z.strictObject({
      file: text,
      /** The goal's name; by default the file's `initiative` or title, else the project's name. */
      id: text.optional(),
    }),
    result: z.strictObject({
      goal: text,
      statement: text,
      position: z.strictObject({ phase: z.int().nullable(), task: text.nullable(), status: text }),
      percent: z.int(),
      /** Where the file contradicts itself or the disk. */
      contradictions: z.array(text),
      assumed: z.array(text),
      /** Facts that hold the parts of the file which have no place in a goal. */
      kept: z.array(text),
      /** The new name of the file, if the goal's own page took its place. */
      renamedTo: text.nullable(),
    }),
    async run(context, { file: typed, id }) {
      const file = fileOf(context, typed);
      const holdfast = await context.holdfast({ orSchema: true });
      await context.current();
      const { importedName, importState } = await import("../projections/index.ts");
      const { root } = context.place;
      const name = id ?? (await importedName(file)) ?? goalName(basename(root)) ?? "imported";
      const { goal, ...notes } = await importState(holdfast, name, { file, root, by: context.by });
      const renamedTo = context.isStoreNamed ? null : makeWay(context.place, file);
      await context.syncFolder(goal);
      const { phase, task, status } = positionOf(goal.state);
      return {
        goal: goal.id,
        statement: goal.state.statement,
        position: { phase, task, status },
        percent: progressOf(goal.state).percent,
        contradictions: [...notes.contradictions],
        assumed: [...notes.assumed],
        kept: [...notes.kept],
        renamedTo,
      };
    },
  }),
];

/** An agent may only import a file of the project. */
function fileOf(context: Context, typed: string): string {
  if (context.caller === "person") return resolve(context.cwd, typed);
  return join(context.place.root, projectPath(context, typed));
}

const goalName = (name: string): string | null => (isId(name) ? name : null);

function makeWay({ root }: StorePlace, file: string): string | null {
  const page = join(root, PLANNING, "STATE.md");
  if (resolve(file) !== resolve(page)) return null;
  for (let number = 1; ; number++) {
    const name = `STATE.imported${number === 1 ? "" : `-${number}`}.md`;
    if (existsSync(join(root, PLANNING, name))) continue;
    renameSync(page, join(root, PLANNING, name));
    return `${PLANNING}/${name}`;
  }
}

/** The `.planning/STATE.md` that Holdfast did not write, if there is one. */
export function foreignPage({ root }: Pick<StorePlace, "root">): string | null {
  try {
    const head = readFileSync(join(root, PLANNING, "STATE.md"), "utf8").slice(0, 1_000);
    return /^digest: sha256:/m.test(head) ? null : `${PLANNING}/STATE.md`;
  } catch {
    // Missing or unreadable: there is nothing to offer.
    return null;
  }
}
