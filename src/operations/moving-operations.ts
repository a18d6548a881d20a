/** Operations that carry a store's content to another store, a portable file or the repository's files. */

import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { abandonMove, type MoveReport, moveStore, openTarget, undoMove } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { mergeNoteText, recentMergeNotes } from "../model/goal/index.ts";
import { openStore } from "../open-store.ts";
import type { SyncReport } from "../projections/index.ts";
import type { Store } from "../store.ts";
import { agentEditsIn } from "./agent-edits.ts";
import { goal } from "./goal-operations.ts";
import {
  absoluteAddress,
  howToReach,
  isDefaultStore,
  refuseIncomplete,
  unfinishedMove,
} from "./moved-store.ts";
import { mutation, query } from "./operation.ts";
import { explainFileError, showInFolder } from "./planning-folder.ts";
import { exportTo } from "./portable-file/export.ts";
import { importFrom } from "./portable-file/import.ts";
import { findStore, PLANNING, requireStore, type StorePlace } from "./store-place.ts";

const text = z.string();
const portable = z.strictObject({
  file: text,
  namespaces: z.array(text),
  streams: z.int(),
  writes: z.int(),
  artifacts: z.int(),
  left: z.array(text),
});

const exported = portable.extend({
  /** Streams that could not be read completely, and their forks: left out. */
  damaged: z.array(z.strictObject({ stream: text, why: text })),
  supervisorNotes: z.int(),
});

function isInHome({ home, label: path }: StorePlace): boolean {
  return path === home || dirname(path) === home;
}

/** `.planning/` follows only the default store, which has moved away here. */
function planningNote(place: StorePlace, to: string): string {
  if (!isInHome(place) || isDefaultStore(to) || !existsSync(join(place.root, PLANNING))) return "";
  return ` ${PLANNING}/ does not follow a named store. Update it with: holdfast rebuild`;
}

function endOf({ address, moving }: Store, cwd: string): Parameters<typeof moveStore>[0] {
  return { address: absoluteAddress(address, cwd), ...(moving && { moving }) };
}

const TASKS_NAMED = 3;

/** Adds commands that release tasks: a claim by command has no worker to stop. */
function withReleaseCommands(error: unknown, from: string, place: StorePlace): unknown {
  const names = isHoldfastError(error, "STREAM_BUSY") ? (error.data["names"] as string[] | undefined) : [];
  const tasks = (names ?? []).flatMap((name) => {
    const [, goalId, task] = /^goal\/(.+)\/([^/]+)$/.exec(name) ?? [];
    return goalId === undefined ? [] : [`holdfast task release ${task} --force --goal ${goalId}`];
  });
  if (!isHoldfastError(error) || tasks.length === 0) return error;
  const store = isInHome(place) ? "" : ` --store ${/\/\/[^/]*@/.test(from) ? "…" : JSON.stringify(from)}`;
  const commands = tasks.slice(0, TASKS_NAMED).map((each) => each + store);
  return new HoldfastError(error.code, error.message, {
    hint: `${error.hint} Release a task whose agent is gone: ${commands.join("; ")}`,
    cause: error,
    data: error.data,
  });
}

type MoveResult = z.input<typeof moveResult>;

const moveResult = z.strictObject({
  from: text,
  to: text.nullable(),
  rows: z.record(text, z.int()),
  /** How programs find the new store; after giving up or undoing a move, what is left of it. */
  afterwards: text,
  abandoned: z.boolean(),
  undone: z.boolean(),
});

async function giveUp(source: Store, cwd: string): Promise<MoveResult> {
  const from = absoluteAddress(source.address, cwd);
  const move = await unfinishedMove(source);
  await abandonMove(source);
  const none = { from, rows: {}, abandoned: true, undone: false };
  if (move === null) return { ...none, to: null, afterwards: "There was no move to give up." };
  return { ...none, to: move.to, afterwards: `${move.to} is incomplete: remove it.` };
}

async function moveInto(source: Store, to: string, cwd: string, place: StorePlace): Promise<MoveResult> {
  const there = findStore(to, cwd).address ?? to;
  const target = await openTarget(endOf(source, cwd), (how) => openStore(there, how));
  try {
    const report = await moveStore(endOf(source, cwd), endOf(target, cwd));
    const afterwards = howToReach(report.to) + planningNote(place, report.to);
    return { ...counted(report), afterwards, abandoned: false, undone: false };
  } finally {
    await target.close();
  }
}

async function takeBack(source: Store, to: string, cwd: string): Promise<MoveResult> {
  const target = await openStore(findStore(to, cwd).address ?? to, { mustExist: true });
  try {
    const report = counted(await undoMove(endOf(source, cwd), endOf(target, cwd)));
    const afterwards = `${report.to} takes no more writes: remove it. ${howToReach(report.from)}`;
    return { ...report, afterwards, abandoned: false, undone: true };
  } finally {
    await target.close();
  }
}

function counted({ from, to, rows }: MoveReport): Pick<MoveResult, "from" | "to" | "rows"> {
  return {
    from,
    to,
    rows: Object.fromEntries(Object.entries(rows).map(([kind, { count }]) => [kind, count])),
  };
}

export const movingOperations = [
  mutation("move", "Move everything into another store; the old one takes no more writes", {
    who: "person",
    vouches: true,
    /**
     * Without `to`, gives up an interrupted move: the store takes writes again. With `undo`, reopens the old
     * store of a finished move, while the new one has no new writes.
     */
    input: z.strictObject({ from: text, to: text.optional(), undo: z.boolean().optional() }),
    result: moveResult,
    async run({ cwd }, { from, to, undo = false }) {
      const place = findStore(from, cwd);
      requireStore(place);
      const source = await openStore(place.address ?? from, { mustExist: true });
      try {
        if (to === undefined) return await giveUp(source, cwd);
        return undo ? await takeBack(source, to, cwd) : await moveInto(source, to, cwd, place);
      } catch (error) {
        throw withReleaseCommands(error, from, place);
      } finally {
        await source.close();
      }
    },
  }),
  query("export", "Write everything into one portable file, with a checksum", {
    input: z.strictObject({ file: text }),
    result: exported,
    async run(context, { file }) {
      const { journal } = await context.holdfast();
      await refuseIncomplete(journal.store);
      return exportTo(await context.journals(), resolve(file), new Date(context.now()).toISOString());
    },
  }),
  mutation(
    "import",
    "Import an exported file, checked before anything is written; creates the store if needed",
    {
      input: z.strictObject({ file: text }),
      result: portable.extend({
        added: z.int(),
        /** Keys that the store did not hold before. A call that needs one of them does not run any more. */
        claims: z.array(
          z.strictObject({
            namespace: text,
            stream: text,
            key: text,
            /** False for a key of a removed session: the file has no call that shows what it was for. */
            hasCall: z.boolean(),
          }),
        ),
      }),
      async run(context, { file }) {
        const into = async () => (await context.create()).journal;
        return importFrom(into, resolve(file), context.coversAll ? null : context.place.namespace);
      },
    },
  ),
  mutation(
    "rebuild",
    "Apply people's edits of a goal's files (STATE.md and others), then write them from the log",
    {
      input: z.strictObject({ goal, folder: text.optional() }),
      result: z.strictObject({
        goal: text,
        folder: text,
        seq: z.int(),
        edits: z.array(
          z.strictObject({ file: text, taken: z.array(text), left: z.array(text), beside: text.nullable() }),
        ),
        ahead: z.array(text),
        merged: z.array(text),
      }),
      async run(context, input) {
        const { folder: path } = input;
        const { projectGoal, mergeEventFolder } = await import("../projections/index.ts");
        // In a fresh clone, a goal with a folder of its own is nowhere else.
        if (path !== undefined) await mergeEventFolder((await context.current()).journal, path);
        const handle = await context.readGoal(input.goal);
        const reports: SyncReport[] = [];
        const onEdit = (report: SyncReport): unknown => reports.push(report);
        const options = { auto: false, onEdit, agentEdit: await agentEditsIn(context.place.home) };
        const show = path === undefined ? showInFolder : projectGoal;
        const target = path === undefined ? {} : { folder: resolve(path) };
        const rethrow = (error: unknown): never => {
          throw explainFileError(error);
        };
        const folder = await show(handle, { ...options, ...target }).catch(rethrow);
        const last = await folder.sync().catch(rethrow);
        await folder.close();
        const edits = reports.flatMap((report) => report.edits);
        return {
          goal: handle.id,
          folder: folder.path,
          seq: last.seq,
          edits: edits.map(({ file, taken, left, beside }) => {
            return { file, taken: [...taken], left: [...left], beside };
          }),
          ahead: [...last.ahead],
          merged: recentMergeNotes(handle.state, context.now()).map(mergeNoteText),
        };
      },
    },
  ),
];
