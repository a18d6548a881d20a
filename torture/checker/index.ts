/**
 * The checker: compares ledger, world and acknowledgements with the invariants. Pure: the same evidence
 * gives the same verdict.
 */

import type { Evidence, Rule, Violation } from "./evidence.ts";
import { intentBeforeEffect } from "./i1-intent-before-effect.ts";
import { nothingLost } from "./i2-nothing-lost.ts";
import { messageSlots } from "./i3-message-slots.ts";
import { promise } from "./i4-promise.ts";
import { finishedStays } from "./i5-finished-stays.ts";
import { nothingSwallowed } from "./i6-nothing-swallowed.ts";
import { order } from "./i7-order.ts";
import { oneEnding } from "./i8-one-ending.ts";
import { unknownLeft } from "./i9-unknown-left.ts";
import { comesToAnEnd } from "./i14-comes-to-an-end.ts";

export { type Evidence, gather, gatherFrom, type Violation } from "./evidence.ts";
export { type IoStep, noAckAfterError } from "./i13-no-ack-after-error.ts";

export const RULES: Readonly<Record<string, Rule>> = {
  I1: intentBeforeEffect,
  I2: nothingLost,
  I3: messageSlots,
  I4: promise,
  I5: finishedStays,
  I6: nothingSwallowed,
  I7: order,
  I8: oneEnding,
  I9: unknownLeft,
  I14: comesToAnEnd,
};

export function check(evidence: Evidence): Violation[] {
  return Object.values(RULES).flatMap((rule) => rule(evidence));
}
