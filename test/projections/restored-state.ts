/**
 * Reads rendered files back into a state without the code of `src/`. A new field of a record needs its line
 * here.
 */

import {
  type Actor,
  type Blocker,
  type DecisionRecord,
  encodeGoal,
  type GoalState,
  type HistoryEntry,
  type Task,
} from "../../src/model/goal/index.ts";
import {
  type RenderedFile,
  readAgentState,
  readRecordPage,
  readTaskBoard,
} from "../../src/projections/index.ts";

type Row = Record<string, unknown>;

const ms = (time: unknown): number | null =>
  time === null || time === undefined ? null : typeof time === "number" ? time : Date.parse(time as string);
const or = <Value>(value: unknown, otherwise: Value): Value => (value ?? otherwise) as Value;

/**
 * Builds a state from the text of the files alone. The files leave out tokens of claims, output of commands,
 * positions of events in the log, and merges.
 */
export async function restored(files: readonly RenderedFile[]): Promise<Row> {
  const text = (path: string): string => files.find((file) => file.path === path)?.text ?? "";
  const state = await readAgentState(text("agent_state.json"));
  const board = await readTaskBoard(text("task_board.json"));
  const pages = async (kind: "decision" | "blocker" | "session") => {
    const folder = `${kind}s/`;
    return Promise.all(
      files.filter(({ path }) => path.startsWith(folder)).map((file) => readRecordPage(kind, file.text)),
    );
  };
  const settings = state["settings"] as Row;
  const next = state["next_action"] as Row | null;
  const success = state["last_success"] as Row | null;
  const checkpoint = state["checkpoint"] as Row | null;
  return {
    id: state["run_id"],
    statement: state["original_goal"],
    title: state["title"],
    createdAt: ms(state["created_at"]),
    updatedAt: ms(state["updated_at"]),
    humanAt: ms(state["last_human_touch"]),
    ttlMs: settings["ttl_ms"],
    verification: settings["verification"],
    maxAttempts: settings["max_attempts"],
    phases: (board["phases"] as Row[]).map(({ closed_at, ...phase }) => ({
      ...phase,
      closedAt: ms(closed_at),
    })),
    focus: state["focus"],
    tasks: sorted((board["tasks"] as Row[]).map(task), "id"),
    aliases: Object.entries(board["aliases"] as Row).sort(),
    facts: sorted(
      Object.entries(state["confirmed_facts"] as Record<string, Row>).map(([key, row]) => ({
        key,
        value: or(row["value"], null),
        source: row["source"],
        expiresAt: ms(row["expires_at"]),
        by: row["by"],
        at: ms(row["at"]),
      })),
      "key",
    ),
    decisions: (await pages("decision")).map(({ fields, sections }) => ({
      id: fields["id"],
      date: fields["date"],
      type: fields["type"],
      context: sections.get("Context"),
      decision: sections.get("Decision"),
      reason: sections.get("Reason"),
      alternatives: (fields["alternatives"] as Row[]).map((row) => ({
        option: row["option"],
        whyNot: row["why_not"],
      })),
      reversible: fields["reversible"],
      files: fields["files"],
      supersedes: fields["supersedes"],
      supersededBy: fields["superseded_by"],
      by: fields["by"],
      at: ms(fields["made_at"]),
    })),
    blockers: (await pages("blocker")).map(({ fields, sections }) => ({
      id: fields["id"],
      status: fields["status"],
      description: sections.get("Description"),
      affects: fields["affects"],
      by: fields["by"],
      reportedAt: ms(fields["reported_at"]),
      identifiedAt: ms(fields["identified_at"]),
      bypassedAt: ms(fields["bypassed_at"]),
      resolvedAt: ms(fields["resolved_at"]),
      workaround: or(sections.get("Workaround"), null),
      followUps: fields["follow_ups"],
      resolution: or(sections.get("Resolution"), null),
    })),
    files: sorted(
      (state["files"] as Row[]).map((row) => ({
        path: row["path"],
        hash: or(row["hash"], null),
        examinedAt: ms(row["examined_at"]),
        modifiedAt: ms(row["modified_at"]),
        task: or(row["task"], null),
        session: or(row["session"], null),
        by: row["by"],
      })),
      "path",
    ),
    history: (await pages("session")).map(({ fields, sections }) => ({
      id: fields["id"],
      agent: fields["agent"],
      status: fields["status"],
      startedAt: ms(fields["started"]),
      endedAt: ms(fields["ended"]),
      restarts: fields["restarts"],
      resumes: fields["resumes"],
      contextUsage: fields["context_usage"],
      completed: fields["completed"],
      issues: numbered(sections, "Issue"),
      notes: numbered(sections, "Note"),
      handoffReason: or(sections.get("Hand-off"), null),
      workingOn: fields["working_on"],
    })),
    questions: (state["questions"] as Row[]).map((row) => ({
      id: row["id"],
      text: row["text"],
      answer: or(row["answer"], null),
      by: row["by"],
      at: ms(row["at"]),
      answeredAt: ms(row["answered_at"]),
    })),
    assumptions: (state["assumptions"] as Row[]).map((row) => ({
      id: row["id"],
      text: row["text"],
      status: row["status"],
      evidence: or(row["evidence"], null),
      by: row["by"],
      at: ms(row["at"]),
      settledAt: ms(row["settled_at"]),
    })),
    implementations: (state["key_implementations"] as Row[]).map((row) => ({ ...row, at: ms(row["at"]) })),
    next: next && { ...next, at: ms(next["at"]) },
    counters: {
      iterations: state["iteration_count"],
      errors: state["error_count"],
      lastSuccess: success && { ...success, at: ms(success["at"]) },
    },
    checkpoint: checkpoint && { ...checkpoint, at: ms(checkpoint["at"]) },
    given: state["numbers_given"],
  };
}

function sorted(rows: readonly Row[], by: string): Row[] {
  return [...rows].sort((a, b) => ((a[by] as string) < (b[by] as string) ? -1 : 1));
}

function numbered(sections: ReadonlyMap<string, string>, name: string): string[] {
  return [...sections].filter(([key]) => new RegExp(`^${name} \\d+$`).test(key)).map(([, text]) => text);
}

function claim(row: Row | undefined): Row | null {
  if (!row) return null;
  return {
    by: row["by"],
    session: row["session"],
    at: ms(row["at"]),
    progressAt: ms(row["progress_at"]),
    note: row["note"],
  };
}

function task(row: Row): Row {
  const submission = row["submission"] as Row | undefined;
  const verdict = row["verdict"] as Row | undefined;
  const failure = row["failure"] as Row | undefined;
  const previous = row["previous"] as Row | undefined;
  const own =
    row["kind"] === "build"
      ? { acceptance: row["acceptance"] }
      : { reviews: row["reviews"], checklist: row["checklist"] };
  return {
    id: row["id"],
    kind: row["kind"],
    phase: row["phase"],
    plan: or(row["plan"], null),
    wave: row["wave"],
    title: row["title"],
    description: or(row["description"], null),
    dependsOn: row["depends_on"],
    files: row["files"],
    ...own,
    status: or(row["own_status"], row["status"]),
    claim: claim(row["assigned_to"] as Row | undefined),
    previous: previous
      ? {
          ...claim(previous),
          ended: previous["ended"],
          endedAt: ms(previous["ended_at"]),
          why: previous["why"],
        }
      : null,
    attempts: or(row["attempts"], 0),
    failures: or(row["failures"], 0),
    rejections: or(row["rejections"], 0),
    failure: failure ? { ...failure, at: ms(failure["at"]) } : null,
    submission: submission
      ? {
          evidence: {
            summary: submission["summary"],
            commands: (submission["commands"] as Row[]).map((each) => ({
              command: each["command"],
              exitCode: each["exit_code"],
            })),
            files: submission["files"],
          },
          by: submission["by"],
          session: submission["session"],
          at: ms(submission["at"]),
        }
      : null,
    verdict: verdict ? { ...verdict, at: ms(verdict["at"]) } : null,
    createdAt: ms(row["created_at"]),
    updatedAt: ms(row["updated_at"]),
    doneAt: ms(row["done_at"]),
  };
}

/**
 * The same of a state in memory: as plain JSON, in the order in which files list things, without what they
 * leave out.
 */
export function comparable(state: GoalState): Row {
  const plain = JSON.parse(JSON.stringify(encodeGoal(state))) as Row & {
    tasks: Task[];
    decisions: DecisionRecord[];
    blockers: Blocker[];
    history: HistoryEntry[];
  };
  const {
    origins: _origins,
    sources: _sources,
    waiting: _waiting,
    signed: _signed,
    known: _known,
    names: _names,
    clock: _clock,
    merges: _merges,
    unsettled: _unsettled,
    revision: _events,
    edits: _edits,
    phasesRevision: _phases,
    touchedAt: _touched,
    ...rest
  } = plain;
  const bare = ({ seq: _seq, revision: _revision, endSeq: _end, ...row }: Row): Row => row;
  const untold = (held: { token?: number; uid?: string | null; as?: string; by: Actor } | null): unknown => {
    if (!held) return null;
    const { token: _token, uid: _uid, as: _as, ...told } = held;
    return told;
  };
  const tasks = plain.tasks.map((each) => ({
    ...bare(each as unknown as Row),
    claim: untold(each.claim),
    previous: untold(each.previous),
    verdict: untold(each.verdict),
    submission: each.submission && {
      ...(untold(each.submission) as Row),
      evidence: {
        ...each.submission.evidence,
        commands: each.submission.evidence.commands.map(({ command, exitCode }) => ({ command, exitCode })),
      },
    },
  }));
  const all = (rows: unknown): Row[] => (rows as Row[]).map(bare);
  return {
    ...rest,
    tasks: sorted(tasks, "id"),
    aliases: (rest["aliases"] as [string, string][]).sort(),
    facts: sorted(rest["facts"] as Row[], "key"),
    files: sorted(rest["files"] as Row[], "path"),
    decisions: all(plain.decisions),
    blockers: all(plain.blockers),
    history: all(plain.history),
  };
}
