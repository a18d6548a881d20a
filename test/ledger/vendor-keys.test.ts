// The key that a vendor sees: the same for the same attempt at the same thing, another for everything else.

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

/** What tells two of them apart. A global key is the same in every session. */
const told = ({ life, scope, of, failures, again }: Case): string =>
  JSON.stringify([scope === "global" ? "" : life, of, failures, again]);

test("two keys are the same exactly where the session, the call, its failures and what it follows are", () => {
  fc.assert(
    fc.property(anyCase, anyCase, (one, other) => {
      expect(keyOf(one) === keyOf(other)).toBe(told(one) === told(other));
      expect(keyOf(one)).toMatch(/^hf_[0-9a-f]{40}$/);
    }),
    { numRuns: 500 },
  );
});
