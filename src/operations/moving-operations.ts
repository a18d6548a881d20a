/** What carries a store's content elsewhere: into one portable file and back, and into the files of the repository. */

import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { abandonMove, copyStore, openTarget } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { mergeNoteText, recentMergeNotes } from "../model/goal/index.ts";
import { openStore } from "../open-store.ts";
import type { SyncReport } from "../projections/index.ts";
import type { Store } from "../store.ts";
import { goal } from "./goal-operations.ts";
import {
  absoluteAddress,
  howToReach,
  isDefaultStore,
  refuseIncomplete,
  unfinishedCopy,
} from "./moved-store.ts";
import { operation } from "./operation.ts";
import { explainFileError, showInFolder } from "./planning-folder.ts";
import { exportTo } from "./portable-file/export.ts";
import type { PortableReport } from "./portable-file/format.ts";
import { importFrom } from "./portable-file/import.ts";
import { findStore, PLANNING, requireStore, type StorePlace } from "./store-place.ts";

const text = z.string();
const portable = z.strictObject({
  file: text,
  streams: z.int(),
  writes: z.int(),
  artifacts: z.int(),
  left: z.array(text),
});

const exported = portable.extend({
  /** What could not be read whole, and what was forked from that: left out. */
  damaged: z.array(z.strictObject({ stream: text, why: text })),
  /** How many notes of supervisors on their workers were left out. */
  supervisorNotes: z.int(),
});

function shown<Report extends PortableReport>(report: Report): Report & { left: string[] } {
  return { ...report, left: [...report.left] };
}

function isOwn({ home, label: path }: StorePlace): boolean {
  return path === home || dirname(path) === home;
}

/** Files follow only the store that is found without being named, which the one that moved was. */
function planningAfter(place: StorePlace, to: string): string {
  if (!isOwn(place) || isDefaultStore(to) || !existsSync(join(place.root, PLANNING))) return "";
  return ` ${PLANNING}/ does not follow a store that is named: bring it up to date with holdfast rebuild.`;
}

function endOf({ address, moving }: Store, cwd: string): Parameters<typeof copyStore>[0] {
  return { address: absoluteAddress(address, cwd), ...(moving && { moving }) };
}

const TASKS_NAMED = 3;

/** A claim on the command line outlives its process: there is no worker to stop, and its lease may run for long. */
function withReleases(error: unknown, from: string, place: StorePlace): unknown {
  const names = isHoldfastError(error, "STREAM_BUSY") ? (error.data["names"] as string[] | undefined) : [];
  const tasks = (names ?? []).flatMap((name) => {
    const [, goalId, task] = /^goal\/(.+)\/([^/]+)$/.exec(name) ?? [];
    return goalId === undefined ? [] : [`holdfast task release ${task} --force --goal ${goalId}`];
  });
  if (!isHoldfastError(error) || tasks.length === 0) return error;
  const store = isOwn(place) ? "" : ` --store ${/\/\/[^/]*@/.test(from) ? "…" : JSON.stringify(from)}`;
  const commands = tasks.slice(0, TASKS_NAMED).map((each) => each + store);
  return new HoldfastError(error.code, error.message, {
    hint: `${error.hint} A task whose agent is gone is let go of by: ${commands.join("; ")}`,
    cause: error,
    data: error.data,
  });
}

type CopyResult = z.input<typeof copyResult>;

const copyResult = z.strictObject({
  from: text,
  /** Null where there was no copy to give up. */
  to: text.nullable(),
  rows: z.record(text, z.int()),
  /** What has to be done so that the new store is found; of a copy that was given up, what is left of it. */
  afterwards: text,
  /** Whether this gave up a copy, and moved nothing. */
  abandoned: z.boolean(),
});

async function giveUp(source: Store, cwd: string): Promise<CopyResult> {
  const from = absoluteAddress(source.address, cwd);
  const copy = await unfinishedCopy(source);
  await abandonMove(source);
  const none = { from, rows: {}, abandoned: true };
  if (copy === null) return { ...none, to: null, afterwards: "No copy of it was under way." };
  return { ...none, to: copy.to, afterwards: `What came into ${copy.to} is of no use: remove it.` };
}

async function copyInto(source: Store, to: string, cwd: string, place: StorePlace): Promise<CopyResult> {
  const there = findStore(to, cwd).address ?? to;
  const target = await openTarget(endOf(source, cwd), (how) => openStore(there, how));
  try {
    const report = await copyStore(endOf(source, cwd), endOf(target, cwd));
    const rows = Object.entries(report.rows).map(([kind, { count }]) => [kind, count] as const);
    return {
      from: report.from,
      to: report.to,
      rows: Object.fromEntries(rows),
      afterwards: howToReach(report.to) + planningAfter(place, report.to),
      abandoned: false,
    };
  } finally {
    await target.close();
  }
}

export const movingOperations = [
  operation({
    name: "copy",
    about: "Move everything into another store; the old one takes no more writes",
    who: "person",
    writes: true,
    /** Without `to`, a copy that was broken off is given up: the store takes writes again. */
    input: z.strictObject({ from: text, to: text.optional() }),
    result: copyResult,
    async run({ cwd }, { from, to }) {
      const place = findStore(from, cwd);
      requireStore(place);
      const source = await openStore(place.address ?? from, { mustExist: true });
      try {
        return to === undefined ? await giveUp(source, cwd) : await copyInto(source, to, cwd, place);
      } catch (error) {
        throw withReleases(error, from, place);
      } finally {
        await source.close();
      }
    },
  }),
  operation({
    name: "export",
    about: "Write everything into one portable file, with a checksum",
    who: "both",
    writes: false,
    input: z.strictObject({ file: text }),
    result: exported,
    async run(context, { file }) {
      const { journal } = await context.holdfast();
      await refuseIncomplete(journal.store);
      const report = await exportTo(journal, resolve(file), new Date(context.now()).toISOString());
      return { ...shown(report), damaged: [...report.damaged] };
    },
  }),
  operation({
    name: "import",
    about: "Take in an exported file, checked before anything is written; makes the store if need be",
    who: "both",
    writes: true,
    input: z.strictObject({ file: text }),
    /** `added`: how many of its writes were not there before. */
    result: portable.extend({ added: z.int() }),
    async run(context, { file }) {
      const into = async () => (await context.create()).journal;
      return shown(await importFrom(into, resolve(file)));
    },
  }),
  operation({
    name: "rebuild",
    about: "Write a goal's files (STATE.md and the rest) from the log, and take in what people wrote there",
    who: "both",
    writes: true,
    input: z.strictObject({ goal, folder: text.optional() }),
    result: z.strictObject({
      goal: text,
      folder: text,
      seq: z.int(),
      edits: z.array(
        z.strictObject({ file: text, taken: z.array(text), left: z.array(text), beside: text.nullable() }),
      ),
      ahead: z.array(text),
      /** What a merge did to work that somebody had done. */
      merged: z.array(text),
    }),
    async run(context, input) {
      const { folder: path } = input;
      const { projectGoal, mergeEventFolder } = await import("../projections/index.ts");
      // A goal may be in a folder of its own, and in this clone nowhere else.
      if (path !== undefined) await mergeEventFolder((await context.current()).journal, path);
      const handle = await context.readGoal(input.goal);
      const reports: SyncReport[] = [];
      const options = { auto: false, onEdit: (report: SyncReport) => void reports.push(report) };
      const show = path === undefined ? showInFolder : projectGoal;
      const said = path === undefined ? {} : { folder: resolve(path) };
      const refuse = (error: unknown): never => {
        throw explainFileError(error);
      };
      const folder = await show(handle, { ...options, ...said }).catch(refuse);
      const last = await folder.sync().catch(refuse);
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
  }),
];
