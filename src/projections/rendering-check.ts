import { problemIn, schemaRefused } from "../state-files/index.ts";
import { AGENT_STATE_SCHEMA, TASK_BOARD_SCHEMA } from "./json-schemas.ts";
import type { Rendering } from "./render.ts";

/** A bad write is a refused write: what we render is held to the schemas that we publish. */
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
