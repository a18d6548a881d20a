import fc from "fast-check";
import { anyCodePoint } from "../any-code-point.ts";

const escaped = fc.string({ unit: anyCodePoint, maxLength: 10 }).map((text) => encodeURIComponent(text));
const plain = fc.string({ unit: fc.constantFrom(..."-._~!$&'()*+,;=:@azAZ09"), maxLength: 10 });
const path = fc.array(
  fc.oneof(escaped, plain).map((part) => `/${part}`),
  { maxLength: 5 },
);

/** Like `fc.webUrl`, which spends a second on a table of all of Unicode before its first address. */
export const anyUrl: fc.Arbitrary<string> = fc
  .tuple(fc.constantFrom("http", "https"), fc.domain(), path)
  .map(([scheme, domain, parts]) => `${scheme}://${domain}${parts.join("")}`);
