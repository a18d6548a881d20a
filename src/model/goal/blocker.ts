/**
 * Blockers: what keeps work from going on, whom it affects, and how it went away.
 *
 *     new ──identify──▶ active ──resolve──▶ resolved
 *                         └──bypass: workaround, follow-up tasks──▶ bypassed ──resolve──▶ resolved
 *
 * Only an active blocker blocks. How far it reaches (task, phase, goal) is computed in `survey.ts`, never stored.
 */

import { HoldfastError } from "../errors.ts";
import type { Actor } from "./roles.ts";

export const BLOCKER_STATUSES = ["new", "active", "bypassed", "resolved"] as const;
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

/** What a blocker names. `other` is for words that name no task or phase of ours: they are kept and block nothing. */
export interface Affects {
  readonly tasks: readonly string[];
  readonly phases: readonly number[];
  readonly goal: boolean;
  readonly other: readonly string[];
}

export interface Blocker {
  readonly id: string;
  readonly status: BlockerStatus;
  readonly description: string;
  readonly affects: Affects;
  readonly by: Actor;
  readonly reportedAt: number;
  readonly identifiedAt: number | null;
  readonly bypassedAt: number | null;
  readonly resolvedAt: number | null;
  readonly workaround: string | null;
  readonly followUps: readonly string[];
  readonly resolution: string | null;
  readonly seq: number;
  /** The last event that changed it. */
  readonly revision: number;
}

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
