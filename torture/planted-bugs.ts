/** Every planted bug, and a fault under which the checker must find it. */

import type { Mutation } from "./bundle.ts";
import { type CaseResult, type Fault, runCase } from "./cases/case.ts";
import { KILL_WHEN_SENT, killAt } from "./cases/failpoints.ts";
import { countCalls, failAt } from "./cases/system-calls.ts";
import { runZombie } from "./cases/zombies.ts";
import { type Scenario, scenario } from "./scenario.ts";
import { chosenStore, type StoreName, type SyncCall } from "./store-under-test.ts";
import type { Workshop } from "./workshop.ts";

export interface Plant {
  readonly name: string;
  readonly under: string;
  /** Finding any of these is enough. */
  readonly expect: readonly string[];
  readonly needsStrace?: true;
  /** The only store that has the bug. Default: every store. */
  readonly store?: StoreName;
  run(workshop: Workshop): Promise<CaseResult>;
}

/** A bug under faults that the case meets one after another. */
const under = (name: string, script: string, faults: readonly Fault[], ...expect: string[]): Plant => ({
  name,
  under: `${script}; ${faults.map((fault) => fault.name).join(", ") || "no fault"}`,
  expect,
  run: (workshop) => runCase(workshop, scenario(script), faults, { plant: name }),
});

/** A bug in a place that no wrapper reaches, planted in the source of an agent of its own. */
const inSource = (
  name: string,
  mutation: Mutation,
  script: string,
  faults: readonly Fault[],
  ...expect: string[]
): Plant => ({
  ...under(name, script, faults, ...expect),
  run: async (workshop) => runCase(await workshop.mutated([mutation]), scenario(script), faults),
});

const asZombie = (name: string, script: string, point: string, ...expect: string[]): Plant => ({
  name,
  under: `${script}; stopped at ${point}, wakes after the end`,
  expect,
  run: (workshop) => runZombie(workshop, scenario(script), point, "after the end", { plant: name }),
});

/** A disk that breaks shortly before the end of the run and stays broken. */
async function brokenDisk(workshop: Workshop, script: Scenario): Promise<Fault> {
  const [syncCall] = chosenStore().syncCalls;
  const counts = await countCalls(workshop, script, workshop.layStore);
  return failAt(syncCall, Math.max(1, counts[syncCall] - 4), "EIO", true, workshop.layStore);
}

const WAITING_KEY_IS_FREE: Mutation = {
  file: "src/ledger/wave.ts",
  from: "(holder && isOpen(holder.status))",
  to: '(holder && isOpen(holder.status) && holder.status !== "waiting")',
};

const KEPT_OUTCOME_FORGOTTEN: Mutation = {
  file: "src/ledger/recording.ts",
  from: "events.push(...decideOutcome(recording, state, result, {}).events);",
  to: "this.kept.delete(run.id);",
};

const ISSUED_WITHOUT_MESSAGE: Mutation = {
  file: "src/session/session-core.ts",
  from: "return appendDrafts(this.id, [...earlier, unique], state, checkpoint);",
  to: "return appendDrafts(this.id, earlier, state, checkpoint);",
};

const QUESTION_THEN_ANSWER = [
  "const elapsedMs = context.journal.steady() - Math.max(context.lostSince(call), endedAt);",
  "const verdict = await askVerify(step);",
] as const;

const JUDGED_BY_THE_ANSWER: Mutation = {
  file: "src/ledger/settling.ts",
  from: QUESTION_THEN_ANSWER.join("\n  "),
  to: QUESTION_THEN_ANSWER.toReversed().join("\n  "),
};

const ANSWERED_BEFORE_COMMIT: Mutation = {
  file: "src/stores/sqlite/queue.ts",
  from: "if (wrote && !this.#commit(transaction, acts)) return null;",
  to: `if (acts.length >= 3) acts.forEach((act, index) => act.resolve(results[index]));
    if (wrote && !this.#commit(transaction, acts)) return null;`,
};

/** Fails each sync of the run in turn, until one of them shows the bug. */
async function failEverySync(workshop: Workshop, script: Scenario, mutation: Mutation): Promise<CaseResult> {
  const [syncCall] = chosenStore().syncCalls;
  const mutated = await workshop.mutated([mutation]);
  const counts = await countCalls(mutated, script, workshop.layStore);
  let result: CaseResult = { fired: false, violations: [], runs: 0 };
  for (let number = 1; number <= counts[syncCall] && result.violations.length === 0; number++) {
    result = await runCase(mutated, script, [failAt(syncCall, number, "EIO", false, workshop.layStore)]);
  }
  return result;
}

export const PLANTS: readonly Plant[] = [
  under("issued after the effect", "keyed", [killAt("call.executed")], "I1"),
  under("turn saved at its end", "ask", [killAt("call.executed")], "I1", "I3"),
  under("message stored with other call ids", "keyed", [], "I3"),
  under("message kept without the intents of its wave", "keyed", [killAt("call.executed")], "I1"),
  under("intents kept without their message", "keyed", [killAt("wave.issued")], "I3"),
  under(
    "intents of an own loop acknowledged before they are written",
    "own loop",
    [killAt("call.executed")],
    "I1",
    "I2",
  ),
  under(
    "outcome and next intent acknowledged before they are written",
    "direct calls",
    [killAt("call.executed:2")],
    "I1",
    "I2",
  ),
  inSource("kept outcome forgotten", KEPT_OUTCOME_FORGOTTEN, "direct calls", [], "I2"),
  inSource("issued calls appended alone", ISSUED_WITHOUT_MESSAGE, "own loop", [], "I3"),
  under("results acknowledged before they are written", "keyed", [killAt("call.recorded")], "I2"),
  under("everything acknowledged before it is written", "keyed", [killAt("message.appended")], "I2"),
  under("result not recorded", "fenced", [killAt("call.recorded")], "I2", "I5"),
  under("finished calls run again", "keyed", [killAt("call.recorded")], "I5"),
  under("unknown is retried", "ask", [killAt("call.executed")], "I4", "I9"),
  under("a throw is a failure", "ask, answer lost", [], "I4"),
  under("key changes between attempts", "keyed", [killAt("call.executed")], "I1", "I4"),
  under("call swallowed", "ask", [], "I4", "I6"),
  under("effect sent twice", "ask", [], "I4"),
  under("verify guesses", "fenced", [killAt("call.starts")], "I4"),
  under("not yet taken for never", "timed, lands when asked", [KILL_WHEN_SENT], "I4"),
  inSource("key of a waiting call is free", WAITING_KEY_IS_FREE, "said twice, answer lost", [], "I4"),
  inSource(
    "not yet judged by the time of the answer",
    JUDGED_BY_THE_ANSWER,
    "timed, lands when asked, slow answer",
    [KILL_WHEN_SENT],
    "I4",
  ),
  under("not yet for ever", "timed", [killAt("call.starts")], "I14"),
  under("ends twice", "keyed", [], "I8"),
  under("all calls issued at once", "one after another", [], "I1"),
  asZombie("no fence", "keyed", "model.answered", "I7"),
  asZombie("verify without a fence", "fenced", "call.starts", "I4"),
  {
    name: "errors taken for success",
    under: "keyed; every sync fails from near the end on",
    expect: ["I2", "I13"],
    needsStrace: true,
    run: async (workshop) => {
      const fault = await brokenDisk(workshop, scenario("keyed"));
      return runCase(workshop, scenario("keyed"), [fault], { plant: "errors taken for success" });
    },
  },
  {
    name: "three acts answered before their COMMIT",
    under: "four sessions at once; EIO at one sync after the other",
    expect: ["I2", "I13"],
    needsStrace: true,
    store: "sqlite",
    run: (workshop) => failEverySync(workshop, scenario("four sessions at once"), ANSWERED_BEFORE_COMMIT),
  },
];

/** A bug that only a power cut shows, planted in the source of a bundle of its own. */
export interface DurabilityPlant {
  readonly name: string;
  readonly mutations: readonly Mutation[];
  /** It shows only if these syncs fail, from one of them on, and another process resumes. */
  readonly failing?: SyncCall;
}

export function durabilityPlants(store: StoreName): DurabilityPlant[] {
  const whole = store === "files" ? FILES_DURABILITY_PLANTS : DURABILITY_PLANTS;
  const plants = Object.entries(whole).map(([name, mutations]) => ({ name, mutations }));
  return [...plants, ...FAILED_SYNC_PLANTS[store]];
}

const FAILED_SYNC_PLANTS: Readonly<Record<StoreName, readonly DurabilityPlant[]>> = {
  sqlite: [
    {
      name: "WAL of failed syncs kept",
      failing: "fsync",
      mutations: [
        {
          file: "src/stores/sqlite/opening.ts",
          from: "if ((statOf(walOf(path))?.size ?? 0) > 0) {",
          to: "if ((statOf(walOf(path))?.size ?? 0) < 0) {",
        },
      ],
    },
  ],
  files: [
    {
      name: "tail of a failed sync kept",
      failing: "fdatasync",
      mutations: [
        {
          file: "src/stores/files/append.ts",
          from: "if (mark?.boot === boot) journal.rewrite(end);",
          to: "",
        },
      ],
    },
    {
      name: "journal's name not synced again",
      failing: "fsync",
      mutations: [
        { file: "src/stores/files/append.ts", from: "syncFolder(folder.paths.folder);", to: "void folder;" },
      ],
    },
  ],
};

type Mutations = Readonly<Record<string, readonly Mutation[]>>;

export const DURABILITY_PLANTS: Mutations = {
  "synchronous = NORMAL": [
    {
      file: "src/stores/sqlite/opening.ts",
      from: "PRAGMA synchronous = FULL",
      to: "PRAGMA synchronous = NORMAL",
    },
    { file: "src/stores/sqlite/opening.ts", from: "level !== 2", to: "level !== 1" },
  ],
  "folder not synced": [
    { file: "src/stores/sqlite/opening.ts", from: "syncNames(dirname(path))", to: "void syncNames" },
  ],
};

/** The same for the files store. */
export const FILES_DURABILITY_PLANTS: Mutations = {
  "journal not synced": [
    {
      file: "src/stores/files/journal-file.ts",
      from: "fdatasyncSync(this.#descriptor);",
      to: "void fdatasyncSync;",
    },
  ],
  "folder not synced": [
    { file: "src/stores/files/folder-connection.ts", from: "syncNames(path);", to: "void syncNames;" },
  ],
  "artifact's name not synced": [
    { file: "src/stores/files/append.ts", from: "    syncFolder(each);", to: "    void each;" },
  ],
  "rewritten journal not synced": [
    { file: "src/stores/files/compaction.ts", from: "fsyncSync(descriptor);", to: "void fsyncSync;" },
  ],
};

/** Whether the bug was found, and by which invariants. */
export function foundBy(plant: Plant, result: CaseResult): { found: boolean; by: string } {
  const broken = [...new Set(result.violations.map((violation) => violation.invariant))];
  const found = result.fired && plant.expect.some((invariant) => broken.includes(invariant));
  return { found, by: broken.join(" ") || "nothing" };
}
