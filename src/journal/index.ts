export { type PayloadCodec, type PayloadPlace, Payloads, payloadSum } from "./codec.ts";
export { type CopyOptions, type CopyReport, copyStore, stayHere } from "./copy/index.ts";
export { type ForkedLog, Journal, type JournalOptions } from "./journal.ts";
export { Lease, leaseLost } from "./leases.ts";
export { type CommitOutcome, type Decision, Log } from "./log.ts";
export { OwnedLog, type OwnedOutcome } from "./owned-log.ts";
export { type Loaded, loadStream } from "./reading.ts";
export type { PruneOptions, PruneReport, Removal } from "./retention.ts";
