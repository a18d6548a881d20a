/** Renders a goal as files: a pure function, so every process renders the same bytes. */

import { type GoalState, type Survey, surveyGoal } from "../model/goal/index.ts";
import { problemIn, schemaRefused } from "../state-files/index.ts";
import { agentStateRows, boardRevision, renderAgentState, TaskBoardText } from "./json-files.ts";
import { AGENT_STATE_SCHEMA, TASK_BOARD_SCHEMA } from "./json-schemas.ts";
import { recordPaths, renderBlocker, renderDecision, renderSession } from "./record-files.ts";
import type { SealedText } from "./seal.ts";
import { renderStatePage, summaryOf } from "./state-page.ts";

export const STATE_PAGE = "STATE.md";
export const AGENT_STATE = "agent_state.json";
export const TASK_BOARD = "task_board.json";

export interface RenderedFile extends SealedText {
  /** Relative to the folder, with `/` between names. */
  readonly path: string;
}

export interface Rendering {
  readonly seq: number;
  /** The page comes last, so that everything it points to is there. */
  readonly files: readonly RenderedFile[];
  /** Rows to check against the schemas before they are written; the check empties `tasks`. */
  readonly fresh: { agentState: Record<string, unknown>; tasks: Record<string, unknown>[] };
}

export function renderedPaths(state: GoalState): string[] {
  return [...recordPaths(state).values(), TASK_BOARD, AGENT_STATE, STATE_PAGE];
}

export class Renderer {
  private readonly records = new WeakMap<object, RenderedFile>();
  private readonly boardText = new TaskBoardText();
  private board: (RenderedFile & { readonly createdAt: number; readonly merges: number }) | null = null;

  render(state: GoalState, seq: number): Rendering {
    const survey = surveyGoal(state);
    const rows = agentStateRows(state, survey);
    const paths = recordPaths(state);
    const files = [
      ...this.each(state.decisions.values(), paths, (row) => renderDecision(state.id, row)),
      ...this.each(state.blockers.values(), paths, (row) => renderBlocker(state.id, row)),
      ...this.each(state.history.values(), paths, (row) => renderSession(state.id, row)),
      this.renderBoard(state, survey),
      { path: AGENT_STATE, ...renderAgentState(state, seq, rows) },
      { path: STATE_PAGE, ...renderStatePage(summaryOf(state, survey), seq) },
    ];
    return { seq, files, fresh: { agentState: rows, tasks: this.boardText.fresh } };
  }

  private renderBoard(state: GoalState, survey: Survey): RenderedFile {
    const { createdAt } = state;
    const merges = state.merges.length;
    const { board } = this;
    // A merge renumbers the events, so an equal revision may be another one.
    if (board?.revision === boardRevision(state) && board.createdAt === createdAt && board.merges === merges)
      return board;
    this.board = { path: TASK_BOARD, ...this.boardText.render(state, survey), createdAt, merges };
    return this.board;
  }

  private *each<Row extends object>(
    rows: Iterable<Row>,
    paths: ReadonlyMap<object, string>,
    render: (row: Row) => SealedText,
  ): Generator<RenderedFile> {
    for (const row of rows) {
      const path = paths.get(row) as string;
      let file = this.records.get(row);
      if (file?.path !== path) {
        file = { path, ...render(row) };
        this.records.set(row, file);
      }
      yield file;
    }
  }
}

export function renderGoal(state: GoalState, seq: number): Rendering {
  return new Renderer().render(state, seq);
}

export async function refuseBadRows({ files, fresh }: Rendering): Promise<void> {
  for (const row of fresh.tasks) {
    const problem = await problemIn(row, TASK_BOARD_SCHEMA, "#/$defs/task");
    if (problem) throw schemaRefused(`task_board.json, ${String(row["id"])}`, problem);
  }
  fresh.tasks.splice(0);
  const seal = files.at(-1);
  const state = {
    schema_version: 2,
    run_id: seal?.goal,
    revision: seal?.revision,
    digest: `sha256:${seal?.digest}`,
    ...fresh.agentState,
  };
  const problem = await problemIn(state, AGENT_STATE_SCHEMA);
  if (problem) throw schemaRefused("agent_state.json", problem);
}
