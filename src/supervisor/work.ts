import { sha256 } from "../model/digest.ts";

/** What a worker can be started for: a task that is ready, or a session whose process died in the middle. */
export type Work =
  | { readonly kind: "task"; readonly goal: string; readonly task: string }
  | { readonly kind: "session"; readonly session: string };

export function titleOf(work: Work): string {
  return work.kind === "task" ? `${work.task} of ${work.goal}` : `session ${work.session}`;
}

/** The name of the stream and of the lease for this work. */
export function workerId(work: Work): string {
  const parts = work.kind === "task" ? [work.kind, work.goal, work.task] : [work.kind, work.session];
  return sha256(JSON.stringify(parts)).slice(0, 32);
}

/** Does one thing of several. What goes wrong with it is told, and `none` is what it came to. */
export type Try = <Result>(doing: string, act: () => Promise<Result>, none: Result) => Promise<Result>;
