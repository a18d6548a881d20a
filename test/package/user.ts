// A user's program, compiled against the packed package and its declarations. If a declaration is missing,
// its types are `any`, and code that must not compile does.

import {
  type Call,
  type GoalFolder,
  type Holdfast,
  HoldfastError,
  isHoldfastError,
  type Journal,
  type Json,
  type Log,
  open,
  type Session,
  type Sessions,
  type Store,
  tool,
} from "holdfast";
import { storeSuite } from "holdfast/testing";

export const json: Json = { amount: 1 };
// @ts-expect-error A function is no JSON.
export const noJson: Json = () => 1;

// @ts-expect-error The code is one of ours.
export const noError = new HoldfastError("NO_SUCH_CODE", "message");

export function hintOf(error: unknown): string | null {
  return isHoldfastError(error) ? error.hint : null;
}

export function lostCode(error: unknown): "LEASE_LOST" | null {
  return isHoldfastError(error, "LEASE_LOST") ? error.code : null;
}

export async function statement(): Promise<string> {
  const holdfast = await open("memory:");
  const goal = await holdfast.goal("checkout", { statement: "Ship it" });
  // @ts-expect-error There is no such field.
  goal.state.nonsense;
  const session = await holdfast.session("order");
  // @ts-expect-error A message has blocks.
  session.messages[0]?.nonsense;
  return goal.state.statement;
}

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

export { storeSuite, tool };
