// What completion shows in a user's editor, compiled against the packed package only: the sources of this
// repository still have the members that are marked `@internal`.

import type { Call, GoalFolder, Holdfast, Journal, Log, Session, Sessions, Store } from "holdfast";

/**
 * All that completion shows for `session.`: users read it as the list of what they can do. The union has every
 * member that is missing here, and every member here that is missing there.
 */
type ShownOfSession =
  | "id"
  | "resumed"
  | "status"
  | "createdAt"
  | "updatedAt"
  | "title"
  | "scratchpadRoot"
  | "metadata"
  | "goal"
  | "messages"
  | "plan"
  | "budget"
  | "version"
  | "openCalls"
  | "prompts"
  | "unfinished"
  | "versions"
  | "lost"
  | "run"
  | "append"
  | "calls"
  | "call"
  | "settle"
  | "save"
  | "compact"
  | "checkpoint"
  | "deleteVersion"
  | "at"
  | "diff"
  | "fork"
  | "allowEffects"
  | "setPlan"
  | "limit"
  | "spend"
  | "describe"
  | "complete"
  | "fail"
  | "cancel"
  | "reopen"
  | "refresh"
  | "close"
  | typeof Symbol.asyncDispose;
type Differing<One, Other> = Exclude<One, Other> | Exclude<Other, One>;
export const sessionShows: Record<Differing<keyof Session, ShownOfSession>, never> = {};

/** Names of internals: an underscore, a handle behind a public class, a member marked `@internal`. */
type Internal<Type> = Extract<
  keyof Type,
  | `_${string}`
  | `$${string}`
  | "core"
  | "own"
  | "guard"
  | "leave"
  | "putAgain"
  | "putStoredArtifact"
  | "noteReferences"
  | "reopen"
  | "storedBytes"
  | "commitMaybeSync"
>;
type Public = [Call, GoalFolder, Holdfast, Journal, Log<unknown>, Sessions, Store];
type InternalOf<All extends readonly unknown[]> = { [Each in keyof All]: Internal<All[Each]> }[number];
export const internalsShown: Record<InternalOf<Public>, never> = {};
