/** Operations on the whole store: status, migrate, check, vacuum, doctor, prune, supervise. */

import { accessSync, constants, existsSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import * as z from "zod";
import { checkFiles } from "../goal/index.ts";
import type { Journal, PruneReport } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { GoalState } from "../model/goal/index.ts";
import { streamId } from "../model/names.ts";
import { findSecret } from "../model/secrets.ts";
import { SESSION_STATUSES } from "../model/session/index.ts";
import { checkEvents, type Holdfast } from "../open.ts";
import { openStore } from "../open-store.ts";
import type { Problem, Store } from "../store.ts";
import { superviseOnce } from "../supervisor/index.ts";
import type { Context } from "./context.ts";
import { goalRows } from "./current-goal.ts";
import { goal } from "./goal-operations.ts";
import { fileCheck } from "./handoff-operations.ts";
import { readSeal, sealWarning } from "./moved-store.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { rehearsedSession, rehearseSessions } from "./rehearsal.ts";
import { openCallRows, readStatus } from "./status.ts";
import { status } from "./status-view.ts";
import { isRemote, openOptionsOf, PLANNING, requireStore, type StorePlace } from "./store-place.ts";
import { unparsedEdits } from "./unmerged-changes.ts";

const text = z.string();

const ENDED = ["completed", "failed", "cancelled"] as const;

/** Removes sessions that ended longer ago, unless they have open calls or a holder. Returns their ids. */
export async function pruneEndedSessions(holdfast: Holdfast, retainMs: number): Promise<string[]> {
  const gone: string[] = [];
  for (const status of ENDED) {
    const { removed, hidden } = await holdfast.sessions.prune({ status, olderThanMs: retainMs });
    gone.push(...removed, ...hidden);
  }
  return gone;
}

/** The configured time that ended sessions are kept, in milliseconds. */
export function retentionOf({ place }: Context): number | undefined {
  return place.config.retention as number | undefined;
}

export const superviseOperations = [
  mutation("supervise", "Clean up once: mark crashed sessions, release stuck tasks, list open calls", {
    who: "person",
    input: z.strictObject({
      staleAfterMs: z.int().positive().optional(),
      retainMs: z.int().positive().optional(),
    }),
    result: z.strictObject({
      crashed: z.array(text),
      reset: z.array(z.strictObject({ goal: text, task: text })),
      open: z.array(z.strictObject({ session: text, callId: text, tool: text })),
      errors: z.array(z.strictObject({ doing: text, error: text })),
      removed: z.array(text),
    }),
    async run(context, { staleAfterMs, retainMs = retentionOf(context) }) {
      const holdfast = await context.holdfast();
      const { journal } = holdfast;
      const name = context.by.name;
      const report = await superviseOnce(journal, { name, ...definedFields({ staleAfterMs }) });
      // With nothing to clean up, a moved store would look healthy.
      await context.warnIfMoved();
      return {
        crashed: [...report.crashed],
        reset: report.reset.map(({ goal, task }) => ({ goal, task })),
        open: report.open.map(({ session, callId, tool }) => ({ session, callId, tool })),
        errors: report.errors.map(({ doing, error }) => ({ doing, error: String(error) })),
        removed: retainMs === undefined ? [] : await pruneEndedSessions(holdfast, retainMs),
      };
    },
  }),
];

const finding = z.strictObject({ name: text, ok: z.boolean(), what: text, hint: text.nullable() });
type Finding = z.input<typeof finding>;

const good = (name: string, what: string): Finding => ({ name, ok: true, what, hint: null });
const bad = (name: string, what: string, hint: string): Finding => ({ name, ok: false, what, hint });

async function examineStore(context: Context): Promise<Finding[]> {
  const { place } = context;
  try {
    requireStore(place);
    const { journal } = await context.holdfast();
    const goals = await goalRows(journal);
    const open = (await Promise.all((await context.journals()).map(openCallRows))).flat();
    const waiting = open.filter((row) => row.status === "waiting").length;
    const note = sealWarning(await readSeal(journal));
    return [
      note === null ? await examineWriting(context, journal.store) : bad("store", note.message, note.hint),
      good("goals", `${goals.length}`),
      waiting === 0
        ? good("calls", "none waiting for a person")
        : bad("calls", `${waiting} wait for a person`, "Resolve them: holdfast calls"),
    ];
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return [bad("store", error.message, error.hint)];
  }
}

async function examineWriting({ isReadOnly }: Context, store: Store): Promise<Finding> {
  const readOnly = `${store.address}: readable, but not writable`;
  const hint = "Check the owner and permissions of its files, and whether the disk is mounted read-only.";
  if (isReadOnly) return bad("store", readOnly, hint);
  const unwritable = await store.unwritable?.();
  if (unwritable) return bad("store", `${readOnly}: ${unwritable.why}`, unwritable.hint);
  return good("store", store.address);
}

/** Nothing for a database server: only a local store has a folder. */
function examineFolder({ address, label }: StorePlace): Finding[] {
  if (address !== undefined && isRemote(address)) return [];
  const folder = dirname(label);
  try {
    accessSync(folder, constants.W_OK);
    return [good("folder", `${folder} can be written`), ...examineDisk(existsSync(label) ? label : folder)];
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return [bad("folder", `${folder} cannot be written (${code})`, "Check its owner and permissions.")];
  }
}

/** Below this, a store that opens will soon fail to write: SQLite's log takes some megabytes. */
const MIN_FREE_BYTES = 16_000_000;

function examineDisk(path: string): Finding[] {
  const { bavail, bsize } = statfsSync(path);
  const free = bavail * bsize;
  const what = `${(free / 1_000_000).toFixed(1)} MB are left on the disk of ${path}`;
  if (free >= MIN_FREE_BYTES) return [];
  return [bad("disk", what, "Free some space: on a full disk every write fails.")];
}

/** Nothing for a named store, which `.planning/` does not belong to. */
function examineEdits({ place, isStoreNamed }: Context): Finding[] {
  const lines = isStoreNamed ? [] : unparsedEdits(place);
  const hint = "Read docs/guides/merging.md on how that happens.";
  return lines.map((each) => bad("edits", `not merged: ${each}`, hint));
}

const MOST_SCANNED_BYTES = 4 << 20;
/** A pull may bring thousands of files with secrets. */
const SECRETS_NAMED = 20;

/** Names files in `.planning/` that hold what looks like a secret; never the secret itself. */
function examineSecrets({ place, isStoreNamed }: Context): Finding[] {
  const folder = join(place.root, PLANNING);
  if (isStoreNamed || !existsSync(folder)) return [];
  if (!statSync(folder).isDirectory()) {
    const hint = "Restore the folder from git, in the project: git checkout -- .planning";
    return [bad("files", `${PLANNING} is no folder`, hint)];
  }
  const hint = "Revoke that secret now: git keeps it. Then remove it from the file and from git's history.";
  const findings: Finding[] = [];
  for (const each of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(each.parentPath, each.name);
    if (!each.isFile() || statSync(path).size > MOST_SCANNED_BYTES) continue;
    const kind = findSecret(readFileSync(path, "utf8"));
    if (kind === null) continue;
    if (findings.length === SECRETS_NAMED) {
      findings.push(bad("secrets", `more files of ${PLANNING} hold secrets: the scan ended here`, hint));
      break;
    }
    findings.push(bad("secrets", `${relative(place.root, path)} holds ${kind}`, hint));
  }
  return findings;
}

async function strayRecords({ place }: Context, state: GoalState): Promise<string[]> {
  const { describeStrays } = await import("../projections/index.ts");
  return (await describeStrays(join(place.root, PLANNING), state)).map((each) => `${PLANNING}/${each}`);
}

/** Opening migrates; opening read-only cannot, and is refused. */
async function isOldFormat(address: string | undefined): Promise<boolean> {
  try {
    const store = await openStore(address, { readOnly: true });
    await store.close();
    return false;
  } catch (error) {
    if (isHoldfastError(error, "STORE_READONLY")) return true;
    throw error;
  }
}

const migrated = z.strictObject({ file: text, from: z.int(), to: z.int(), backup: text.nullable() });
type MigratedFile = z.input<typeof migrated>;

async function migrateFiles(context: Context, dryRun: boolean): Promise<MigratedFile[]> {
  const planning = join(context.place.root, PLANNING);
  if (!existsSync(planning)) return [];
  const { migrateFile } = await import("../projections/index.ts");
  const names = readdirSync(planning, { recursive: true }).map(String);
  const reports: MigratedFile[] = [];
  for (const name of names.filter((each) => basename(each) === "agent_state.json")) {
    const { from, to, backup } = await migrateFile(join(planning, name), { dryRun });
    if (from !== to) reports.push({ file: join(PLANNING, name), from, to, backup });
  }
  return reports;
}

const SERVER_KEEPS_SPACE =
  "The server keeps most of the free space for new rows. VACUUM FULL gives it back, and locks the tables.";

function noVacuum(address: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${address}: this store has no space to give back`, {
    hint: "It is in memory, only read here, or a store with tools of its own for that.",
    data: { address },
  });
}

/** The medium once, and the events of each namespace. A problem outside of the first one names its own. */
async function problemsOf([own, ...others]: readonly Journal[]): Promise<Problem[]> {
  if (!own) return [];
  const problems = [...(await own.store.check()), ...(await checkEvents(own))];
  for (const other of others) {
    for (const { where, ...rest } of await checkEvents(other))
      problems.push({ ...rest, where: `${where} in namespace ${other.namespace}` });
  }
  return problems;
}

const OLDEST_NODE = [20, 19] as const;

function examineNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isNew = major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
  if (isNew) return good("node", process.version);
  return bad("node", process.version, `Use Node ${OLDEST_NODE.join(".")} or later.`);
}

type PruneCondition = Omit<Parameters<Holdfast["sessions"]["prune"]>[0], "dryRun">;

/** Without a condition, the configured retention is one: sessions that ended longer ago. */
function conditions(context: Context, typed: z.input<typeof pruneFields>): PruneCondition[] {
  const given = definedFields(typed) as PruneCondition;
  const retentionMs = retentionOf(context);
  if (Object.keys(given).length > 0 || retentionMs === undefined) return [given];
  return ENDED.map((status) => ({ status, olderThanMs: retentionMs }));
}

async function pruneAll(holdfast: Holdfast, each: readonly PruneCondition[], dryRun: boolean) {
  const reports: PruneReport[] = [];
  for (const condition of each) reports.push(await holdfast.sessions.prune({ ...condition, dryRun }));
  return {
    removed: reports.flatMap(({ removed }) => removed),
    hidden: reports.flatMap(({ hidden }) => hidden),
    spared: reports.flatMap(({ spared }) => spared),
  };
}

const pruneFields = z.strictObject({
  olderThanMs: z.int().positive().optional(),
  status: z.enum(SESSION_STATUSES).optional(),
  keep: z.int().nonnegative().optional(),
});

export const storeOperations = [
  query("status", "Show what needs a person, the state of goals and sessions, and what to type next", {
    input: z.strictObject({ goal: text.optional() }),
    result: status,
    async run(context, { goal }) {
      const { journal } = await context.current();
      const { notMerged, place, coversAll } = context;
      const options = { ...openOptionsOf(place), coversAll, goal, now: context.now(), notMerged };
      return readStatus(journal.store, options);
    },
  }),
  mutation("migrate", "Migrate the store and the goals' files to the format of this release", {
    input: z.strictObject({ dryRun: z.boolean().optional() }),
    result: z.strictObject({
      address: text,
      dryRun: z.boolean(),
      store: z.boolean(),
      files: z.array(migrated),
    }),
    async run(context, { dryRun = false }) {
      requireStore(context.place);
      const isOld = await isOldFormat(context.place.address);
      const address = dryRun ? context.place.label : (await context.holdfast()).address;
      return { address, dryRun, store: isOld, files: await migrateFiles(context, dryRun) };
    },
  }),
  query("check", "Verify the store, the log's invariants, and the recorded files of the goals", {
    /** With a goal: the whole store, but only that goal's files. With a program: only the live sessions. */
    input: z.strictObject({ goal, against: text.optional() }),
    result: z.strictObject({
      ok: z.boolean(),
      problems: z.array(z.strictObject({ invariant: text, where: text, what: text })),
      files: z.array(fileCheck.extend({ goal: text })),
      /** Record files in `.planning/` that are no record of the goal: stale, or garbled by a merge. */
      strays: z.array(text),
      /** Edits of `.planning/` that could not be parsed. They are no damage, so `ok` ignores them. */
      notMerged: z.array(text),
      /** Whether the program `against` can continue each live session; null without a program. */
      sessions: z.array(rehearsedSession).nullable(),
    }),
    async run(context, { goal: named, against }) {
      if (against !== undefined) {
        const sessions = await rehearseSessions(context, against);
        const ok = sessions.every(({ problems: found }) => found.length === 0);
        return { ok, problems: [], files: [], strays: [], notMerged: [], sessions };
      }
      const holdfast = await context.holdfast();
      const only = named === undefined ? null : await context.goalId(named);
      const problems = await problemsOf(await context.journals());
      const files: (z.input<typeof fileCheck> & { goal: string })[] = [];
      const strays: string[] = [];
      for (const { stream } of await goalRows(holdfast.journal)) {
        const id = streamId(stream);
        if (only !== null && id !== only) continue;
        const { state } = await holdfast.goal(id, { stale: "use" });
        const report = await checkFiles(context.place.root, state.files.values());
        files.push(...report.files.map(({ path, verdict, why }) => ({ goal: id, path, verdict, why })));
        if (!context.isStoreNamed) strays.push(...(await strayRecords(context, state)));
      }
      const notMerged = context.isStoreNamed ? [] : unparsedEdits(context.place);
      const ok = problems.length + strays.length === 0 && files.every(({ verdict }) => verdict === "OK");
      return { ok, problems, files, strays, notMerged, sessions: null };
    },
  }),
  mutation("vacuum", "Give the space of erased and removed sessions back to the disk", {
    who: "person",
    input: z.strictObject({}),
    result: z.strictObject({
      address: text,
      /** Artifacts without a session that were removed first. */
      artifacts: z.int(),
      /** Sizes of the store in bytes. */
      before: z.int(),
      after: z.int(),
      /** Where the rest of the free space is, if the store keeps it. */
      note: text.nullable(),
    }),
    async run(context) {
      const { store } = (await context.holdfast()).journal;
      if (!store.vacuum) throw noVacuum(store.address);
      let artifacts = 0;
      for (const journal of await context.journals()) artifacts += await journal.collectArtifacts();
      const { before, after } = await store.vacuum();
      const note = store.address.startsWith("postgres ") ? SERVER_KEEPS_SPACE : null;
      return { address: store.address, artifacts, before, after, note };
    },
  }),
  query("doctor", "Find out why something does not work: Node, the folder, the store", {
    input: z.strictObject({}),
    result: z.strictObject({ ok: z.boolean(), findings: z.array(finding) }),
    async run(context) {
      const findings = [
        examineNode(),
        ...examineFolder(context.place),
        ...(await examineStore(context)),
        ...examineEdits(context),
        ...examineSecrets(context),
      ];
      return { ok: findings.every(({ ok }) => ok), findings };
    },
  }),
  mutation("prune", "Remove old sessions, except those with open calls or a holder", {
    who: "person",
    vouches: ({ dryRun }) => dryRun !== true,
    input: pruneFields.extend({ dryRun: z.boolean().optional() }),
    result: z.strictObject({
      dryRun: z.boolean(),
      removed: z.array(text),
      hidden: z.array(text),
      spared: z.array(z.strictObject({ id: text, why: z.enum(["open", "held", "needed", "changed"]) })),
      artifacts: z.int(),
    }),
    async run(context, { dryRun = false, ...what }) {
      const holdfast = await context.holdfast();
      const { removed, hidden, spared } = await pruneAll(holdfast, conditions(context, what), dryRun);
      const artifacts = dryRun ? 0 : await holdfast.collectArtifacts();
      return { dryRun, removed: [...removed], hidden: [...hidden], spared: [...spared], artifacts };
    },
  }),
];
