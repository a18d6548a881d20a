// The vendor key: the same for the same attempt, different for everything else.

import fc from "fast-check";
import { expect, test } from "vitest";
import { VendorKeys } from "../../src/ledger/index.ts";
import { sha256 } from "../../src/model/digest.ts";

interface Case {
  readonly life: string;
  readonly scope: "session" | "call" | "global";
  readonly of: string;
  readonly failures: number;
  readonly again: string | null;
}

const anyCase: fc.Arbitrary<Case> = fc.record({
  life: fc.constantFrom("order", "order#2", "other", ""),
  scope: fc.constantFrom("session", "call", "global"),
  of: fc.constantFrom("a", "b"),
  failures: fc.nat({ max: 2 }),
  again: fc.constantFrom(null, "call-1", "call-2"),
});

const keyOf = ({ life, scope, of, failures, again }: Case): string =>
  new VendorKeys(life).of({ scope, key: `k1_${sha256(of)}` }, failures, again);

/** The parts that make two keys different. A global key is the same in every session. */
const identity = ({ life, scope, of, failures, again }: Case): string =>
  JSON.stringify([scope === "global" ? "" : life, of, failures, again]);

test("two vendor keys are equal exactly if session, call, failures and predecessor are", () => {
  fc.assert(
    fc.property(anyCase, anyCase, (one, other) => {
      expect(keyOf(one) === keyOf(other)).toBe(identity(one) === identity(other));
      expect(keyOf(one)).toMatch(/^hf_[0-9a-f]{40}$/);
    }),
    { numRuns: 500 },
  );
});
