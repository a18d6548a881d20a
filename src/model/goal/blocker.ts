/**
 * Blockers: what keeps work from going on, whom it affects, and how it went away.
 *
 *     new ──identify──▶ active ──resolve──▶ resolved
 *                         └──bypass: workaround, follow-up tasks──▶ bypassed ──resolve──▶ resolved
 *
 * Only an active blocker blocks. How far it reaches (task, phase, goal) is computed in `survey.ts`, never stored.
 */

import { HoldfastError } from "../errors.ts";
import type { AFFECTS, BLOCKER, BLOCKER_STATUSES } from "./note-records.ts";
import type { RecordOf } from "./record-table.ts";

export type BlockerStatus = (typeof BLOCKER_STATUSES)[number];
export type BlockerAct = "identify" | "bypass" | "resolve";

export const BLOCKER_TRANSITIONS: Readonly<
  Record<BlockerStatus, Readonly<Partial<Record<BlockerAct, BlockerStatus>>>>
> = {
  new: { identify: "active" },
  active: { bypass: "bypassed", resolve: "resolved" },
  bypassed: { resolve: "resolved" },
  resolved: {},
};

/** The work that a blocker names. */
export interface Affects extends RecordOf<typeof AFFECTS> {}

export interface Blocker extends RecordOf<typeof BLOCKER> {}

export function nextBlockerStatus(blocker: Blocker, act: BlockerAct): BlockerStatus {
  const next = BLOCKER_TRANSITIONS[blocker.status][act];
  if (next) return next;
  const hint =
    blocker.status === "resolved"
      ? "It is resolved already. If the trouble is back, report a new blocker that names it."
      : `From ${blocker.status} it can only: ${Object.keys(BLOCKER_TRANSITIONS[blocker.status]).join(", ")}.`;
  throw new HoldfastError(
    "BLOCKER_TRANSITION",
    `blocker ${blocker.id} is ${blocker.status}: it cannot ${act}`,
    {
      hint,
      data: { blocker: blocker.id, status: blocker.status, act },
    },
  );
}
