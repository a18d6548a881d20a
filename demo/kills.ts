/** The worst moments, in the order of the demo. Each life of the agent ends at the next one. */

import type { Moment } from "./world.ts";

/** The conductor's knowledge about the current life of the agent. */
export interface Life {
  /** How many calls of a tool this life has completed, by the agent's own messages. */
  completed(tool: string): number;
  /** How many requests of a kind the world has applied in this life. */
  applied(kind: Moment["kind"]): number;
}

/**
 * `hold` keeps the request waiting until something changes. `kill-in-commit` lets the world answer and
 * kills the agent while its store is being written.
 */
export type Verdict = "go" | "hold" | "kill" | "kill-in-commit";

export interface Kill {
  readonly when: string;
  /** A failpoint of the library at which the process kills itself. Without it, a moment of the world. */
  readonly failpoint?: string;
  readonly at?: (moment: Moment, life: Life, heldMs: number) => Verdict;
}

/** A recorded result may never come, because of a planted bug. Then the demo continues without it. */
const PATIENCE_MS = 1_500;

export const KILLS: readonly Kill[] = [
  {
    when: "inside the model call",
    at: ({ kind, subject }) => (kind === "model" && subject === "2" ? "kill" : "go"),
  },
  {
    when: "when the answer was stored, before anything it asks for began",
    failpoint: "message.appended",
  },
  {
    when: "before the effect: 3 payments issued on record, none sent",
    failpoint: "call.starts:4",
  },
  {
    when: "while 2 payments were being recorded, the third on its way",
    at: ({ kind, stage, subject }, life) => {
      if (kind !== "payment") return "go";
      if (stage === "arrived") return subject === "4713" ? "hold" : "go";
      return life.applied("payment") < 2 ? "hold" : "kill-in-commit";
    },
  },
  { when: "again, in the middle of recovering", failpoint: "verify.answered" },
  {
    when: "between parallel calls: 1 mail recorded, 1 sent, 1 not",
    at: ({ kind, stage, subject }, life, heldMs) => {
      if (kind !== "mail" || subject.startsWith("ann")) return "go";
      if (subject.startsWith("cat")) return "hold";
      if (stage === "applied") return "kill";
      return life.completed("send_mail") > 0 || heldMs > PATIENCE_MS ? "go" : "hold";
    },
  },
  {
    when: "after the effect: the desk was paged, the answer never arrived",
    at: ({ kind, stage }) => (kind === "page" && stage === "applied" ? "kill" : "go"),
  },
  {
    when: "when the report was written, before the checkpoint was saved",
    failpoint: "call.executed",
  },
  { when: "after its last word, before anybody read it", failpoint: "run.done" },
];
