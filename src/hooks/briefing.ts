/**
 * The briefing at the start of a session. It writes nothing, so it needs neither schemas nor a lock. If
 * something does not answer in time, the briefing leaves it out and says so.
 */

import { type GoalChoice, GoalPreview, previewSpools } from "../agent-sessions/index.ts";
import { type BriefingOptions, checkFiles, dataElement, makeBriefing } from "../goal/index.ts";
import { loadStream, payloadsOf } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type GoalState, goalFold } from "../model/goal/index.ts";
import { streamName } from "../model/names.ts";
import { openStore } from "../open-store.ts";
import {
  chosenGoal,
  goalChoice,
  goalRows,
  knownGoals,
  oneLineError,
  openAndMergeEvents,
  readSeal,
  type StorePlace,
  sealNotice,
  unmergedEvents,
  unparsedEdits,
} from "../operations/index.ts";
import type { Store } from "../store.ts";
import { withTypedCommands } from "../wiring/index.ts";

export interface BriefingRequest {
  readonly place: StorePlace;
  readonly folder: string;
  /** Null for the rehearsal of `init --check`, which records nothing. */
  readonly session: string | null;
  /** A sub-agent works for the session, and gets a shorter briefing. */
  readonly isSubagent: boolean;
  readonly characters: number;
  readonly busyMs: number;
  readonly waitMs: number;
  readonly warn: (error: unknown) => void;
}

const BRIEFING_TOKENS = 1_500;
const SUBAGENT_TOKENS = 700;
/** Nothing but constants of ours stands before the data element: stored text is quoted inside it. */
const SEALED =
  "Holdfast: this store has moved, or is being copied. The data below says where. " +
  "Ask a person before you work by it.\n";
const NOT_MERGED = "Some events of a pull were not merged. The data below names them.\n";
const NAMED = 5;

interface NoCurrentGoal {
  readonly advice: string;
  readonly open: readonly string[];
}

/** Checking recorded files may take a few of the milliseconds that an agent waits. */
const FILE_CHECK_LIMIT = { files: 200, ms: 25 };

export async function briefSession(request: BriefingRequest): Promise<string> {
  try {
    const text = await withTimeout(request.waitMs, "the store", brief(request));
    const withCommands = withTypedCommands(text);
    return withCommands.length <= request.characters ? withCommands : text;
  } catch (error) {
    request.warn(error);
    return "Holdfast keeps the state of this project, but the store could not be read. Try: holdfast brief";
  }
}

async function brief(request: BriefingRequest): Promise<string> {
  const { session, place } = request;
  const { store, notMerged } = await mergePulledEvents(request, await openReadOnly(request));
  const [found, seal] = await Promise.all([
    readCurrentGoal(store, place),
    readSeal({ store, namespace: place.namespace }),
  ]);
  const sealed = sealNotice(seal);
  const sealNote = sealed === null ? "" : SEALED;
  const mergeNote = notMerged.length === 0 ? "" : NOT_MERGED;
  const named = notMerged.slice(0, NAMED);
  if ("advice" in found)
    return (
      sealNote +
      mergeNote +
      found.advice +
      dataElement({ STORE: sealed === null ? [] : [sealed], "NOT MERGED": named, "OPEN GOAL": found.open })
    );
  const { state, seq, choose } = found;
  if (session !== null) await previewPending(request, state, choose);
  const { files } = await checkFiles(place.root, state.files.values(), FILE_CHECK_LIMIT);
  const uncheckedFiles = state.files.size - files.length;
  const unchecked =
    uncheckedFiles === 0 ? "" : `${uncheckedFiles} recorded files were not checked: holdfast check\n`;
  const head = sealNote + identityOf(request) + mergeNote + unchecked;
  const unmerged = [...named, ...(place.isNamed ? [] : unparsedEdits(place))];
  const storeNotice = sealed === null ? {} : { storeNotice: sealed };
  const options = { files, notMerged: unmerged, ...storeNotice, ...(session !== null && { session }) };
  const tokens = request.isSubagent ? SUBAGENT_TOKENS : BRIEFING_TOKENS;
  return head + fittingBriefing(state, seq, { ...options, tokens }, request.characters - head.length);
}

function identityOf({ session, isSubagent }: BriefingRequest): string {
  if (session === null) return "";
  if (isSubagent)
    return (
      `You are a sub-agent of session ${session}. The files that you edit are recorded for it. ` +
      "Do not claim or submit tasks yourself. Do not redo what is listed as done or decided.\n"
    );
  return (
    `You are session ${session} of the goal below. Use the MCP tools of the server holdfast ` +
    "(task_claim, task_progress, task_submit) if you have them or a tool search finds them: " +
    "they know your session, and work in a sandbox. " +
    `Else pass --by ${session} --role worker --session ${session} to holdfast task claim.\n`
  );
}

/** A merge is rare, so it may take its time. `notMerged` says which events could not be merged, and why. */
async function mergePulledEvents(
  request: BriefingRequest,
  store: Store,
): Promise<{ store: Store; notMerged: readonly string[] }> {
  if (request.place.isNamed) return { store, notMerged: [] };
  const notMerged: string[] = [];
  const report = (error: unknown): void => {
    request.warn(error);
    notMerged.push(oneLineError(error));
  };
  try {
    const { isPending, refused } = await unmergedEvents(request.place, store);
    if (!isPending) return { store, notMerged: refused };
  } catch (error) {
    report(error);
    return { store, notMerged };
  }
  await store.close();
  await openAndMergeEvents(request.place, report).catch(report);
  return { store: await openReadOnly(request), notMerged };
}

/** A store of an older format cannot be read before it is migrated, so it is opened for writing once. */
async function openReadOnly({ place, busyMs }: BriefingRequest): Promise<Store> {
  const { encryption } = place.config;
  try {
    return await openStore(place.address, { busyMs, encryption, readOnly: true });
  } catch (error) {
    if (!isHoldfastError(error, "STORE_READONLY")) throw error;
    return openStore(place.address, { busyMs, encryption });
  }
}

async function readCurrentGoal(
  store: Store,
  place: StorePlace,
): Promise<{ state: GoalState; seq: number; choose: GoalChoice } | NoCurrentGoal> {
  const { namespace, config } = place;
  const rows = await goalRows({ store, namespace });
  const { open, current } = knownGoals(rows, chosenGoal(place));
  if (current !== null) {
    const reader = { store, namespace, payloads: payloadsOf(store, config.codecs) };
    const { state, head } = await loadStream(reader, goalFold, streamName("goal", current));
    return { state, seq: head.seq, choose: goalChoice(place, rows) };
  }
  if (open.length === 0)
    return {
      advice:
        "Holdfast: there is no goal yet. " +
        'Create one: holdfast goal new <name> "<statement>" --role orchestrator',
      open: [],
    };
  return {
    advice:
      "Holdfast: several goals are open. Choose one for this worktree: " +
      "holdfast goal use <goal>; then: holdfast brief",
    open: open.slice(0, 20),
  };
}

/** Applies pending spooled lines to `state`. A spool that cannot be read must not suppress the briefing. */
async function previewPending(
  { folder, warn }: BriefingRequest,
  state: GoalState,
  choose: GoalChoice,
): Promise<void> {
  const now = Date.now();
  try {
    await previewSpools(new GoalPreview(state, now), choose, folder, now, warn);
  } catch (error) {
    warn(error);
  }
}

function fittingBriefing(
  state: GoalState,
  seq: number,
  options: BriefingOptions & { readonly tokens: number },
  characters: number,
): string {
  for (let { tokens } = options; ; tokens = Math.floor(tokens / 1.5)) {
    const { text } = makeBriefing(state, seq, Date.now(), { ...options, tokens: Math.max(200, tokens) });
    if (text.length <= characters || tokens < 200) return text.slice(0, characters);
  }
}

function withTimeout<Value>(waitMs: number, what: string, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what} took longer than ${waitMs} ms`)), waitMs);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
