/**
 * Where two stores stand in a copy. A store's seal is the only state; every step is one conditional change of it.
 *
 *     source   none, arrived ──leave──▶ leaving ──depart──▶ left, for good
 *                     ▲──────stay─────────┘ └─leave again, as another move: restarts the copy
 *     target   none ──enter──▶ entering ──arrive──▶ arrived: an ordinary store that remembers where it came from
 *                                 └─enter again, from the same source: restarts the copy
 *
 * But for `arrived`, a seal refuses every write of everybody. Invariants:
 *
 *   - At most one of the two takes writes. The target opens only after the source has left, and only for that move.
 *   - While the source is `leaving` no target of it has ever been open, so it may stay, or leave for somewhere else.
 *     A copy that was overtaken by a restart finds another move in the seal, and can finish nothing.
 *   - A source that has left never takes writes again: whoever still has it open is told where it went.
 */

import { randomUUID } from "node:crypto";
import { HoldfastError } from "../../model/errors.ts";
import { finishCopyHint } from "../../model/stream/index.ts";
import type { Moving, Seal, Store } from "../../store.ts";

export interface End {
  readonly address: string;
  readonly moving: Moving;
}

/** A store as one end of a copy; not every kind of store can be one. */
export function endOf({ address, moving }: Pick<Store, "address" | "moving">): End {
  if (moving) return { address, moving };
  throw new HoldfastError("INPUT_INVALID", `${address}: this kind of store cannot be copied`, {
    hint: "Use stores that have `moving`: all that come with Holdfast do.",
    data: { address },
  });
}

export function newMove(): string {
  return randomUUID();
}

/** What a store must not be when a copy begins from it. */
export function refuseSource(source: End, seal: Seal | null): void {
  if (seal?.phase === "entering") {
    throw new HoldfastError("STORE_READONLY", `${source.address} is itself being filled from ${seal.other}`, {
      hint: finishCopyHint(seal.other, source.address),
      data: { address: source.address, moved: "entering", from: seal.other },
    });
  }
  if (seal?.phase === "left") {
    throw new HoldfastError("STORE_MOVED", `${source.address} has moved to ${seal.other}`, {
      hint: "Copy from there. A store that has moved can only be read.",
      data: { address: source.address, moved: "left", to: seal.other },
    });
  }
}

/**
 * A target that an earlier copy from the same source began to fill may be filled again; no other with a seal may. The
 * source is known by its address, or by the copy that it is still leaving with: addresses depend on the folder.
 */
export function refuseTarget(target: End, source: End, seal: Seal | null, before: Seal | null): void {
  if (seal === null) return;
  const isSame = seal.other === source.address || seal.move === before?.move;
  if (seal.phase === "entering" && isSame) return;
  const what = seal.phase === "entering" ? "is being filled from" : "was filled from";
  throw notEmpty(target, `it ${seal.phase === "left" ? "has moved to" : what} ${seal.other}`);
}

export function notEmpty(target: End, why: string): HoldfastError {
  return new HoldfastError("STREAM_EXISTS", `${target.address} cannot be copied into: ${why}`, {
    hint: "Name a store that is new: a copy never mixes two stores.",
    data: { address: target.address },
  });
}

/** Changes the seal from what was seen, or says that somebody else was faster. */
export async function step(end: End, expect: Seal | null, next: Seal | null): Promise<void> {
  if (await end.moving.reseal(expect, next)) return;
  throw new HoldfastError("STREAM_BUSY", `${end.address}: another copy has begun, or ended, in between`, {
    hint: "Look which copy is under way and let it finish, then try again.",
    data: { address: end.address },
  });
}
