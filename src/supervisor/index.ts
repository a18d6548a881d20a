/** Looks after work without an owner: crashed sessions, stuck tasks, interrupted calls, workers. */

export type { CommandNotice, OpenCallNote, SupervisorEvent } from "./notices.ts";
export { DEFAULTS, type SuperviseOptions, type SweepOptions, type WorkerCommand } from "./options.ts";
export { noteCrash, supervise, superviseOnce } from "./supervise.ts";
export { Sweeper, type SweepReport } from "./sweep.ts";
export { type Work, workerStreamOf } from "./worker-kind.ts";
export { Workers } from "./workers.ts";
