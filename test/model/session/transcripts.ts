import fc from "fast-check";
import type { Json } from "../../../src/model/json.ts";
import type { Block, Message } from "../../../src/model/session/index.ts";

/** Texts as they come: code units of any kind, NUL and halves of pairs among them. */
const unit = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("a", "Z", " ", "é", "\n", '"', "\\") },
  { weight: 2, arbitrary: fc.constantFrom("\0", "\ud800", "\udfff", "😀", "\u2028", "\uffff") },
  { weight: 1, arbitrary: fc.nat(0xffff).map((code) => String.fromCharCode(code)) },
);
export const anyText = fc.array(unit, { maxLength: 12 }).map((units) => units.join(""));

const anyJson = fc.jsonValue({ maxDepth: 2, noUnicodeString: false }).map((value) => {
  return JSON.parse(JSON.stringify(value)) as Json;
});

const meta = fc.option(
  fc.dictionary(anyText, anyJson, { maxKeys: 2, noNullPrototype: true }).map((value) => {
    return JSON.parse(JSON.stringify(value)) as { [key: string]: Json };
  }),
  { nil: undefined, freq: 4 },
);

function withMeta<Kind extends Block>(block: fc.Arbitrary<Kind>): fc.Arbitrary<Block> {
  return fc.tuple(block, meta).map(([each, data]) => (data === undefined ? each : { ...each, meta: data }));
}

const callId = fc.constantFrom("call-1", "call-2", "call-3");

const plainBlock = fc.oneof(
  withMeta(fc.record({ kind: fc.constant("text" as const), text: anyText })),
  withMeta(fc.record({ kind: fc.constant("reasoning" as const), text: anyText })),
  withMeta(
    fc.record({
      kind: fc.constant("tool_call" as const),
      id: callId,
      name: fc.constant("pay"),
      args: anyJson,
    }),
  ),
);

const anyBlock: fc.Arbitrary<Block> = fc.oneof(
  { weight: 3, arbitrary: plainBlock },
  {
    weight: 1,
    arbitrary: withMeta(
      fc.record({
        kind: fc.constant("tool_result" as const),
        callId,
        content: fc.oneof(anyText, fc.array(plainBlock, { maxLength: 2 })),
        isError: fc.boolean(),
      }),
    ),
  },
);

/** Messages without ids: who uses them numbers them. */
export const anyContent: fc.Arbitrary<Omit<Message, "id">> = fc
  .record({
    role: fc.constantFrom("system", "user", "assistant", "tool"),
    createdAt: fc.constantFrom("2026-07-28T10:00:00Z", "2026-07-28T10:00:00.000+02:00"),
    blocks: fc.array(anyBlock, { maxLength: 3 }),
  })
  // Records come with odd prototypes, on which no comparison should depend.
  .map((content) => JSON.parse(JSON.stringify(content)) as Omit<Message, "id">);

/** One change that a caller may make to its transcript between two saves. */
export type Edit =
  | { readonly act: "append" | "insert" | "edit"; readonly at: number; readonly content: Omit<Message, "id"> }
  | { readonly act: "remove" | "swap" | "repeat" | "rotate"; readonly at: number }
  | { readonly act: "compact"; readonly at: number; readonly content: Omit<Message, "id"> };

export const anyEdit: fc.Arbitrary<Edit> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ act: fc.constant("append" as const), at: fc.nat(50), content: anyContent }),
  },
  fc.record({
    act: fc.constantFrom("insert" as const, "edit" as const, "compact" as const),
    at: fc.nat(50),
    content: anyContent,
  }),
  fc.record({ act: fc.constantFrom("remove", "swap", "repeat", "rotate"), at: fc.nat(50) }),
);

/** The transcript after an edit; `newId` numbers what is new. */
export function edited(old: readonly Message[], edit: Edit, newId: () => string): Message[] {
  const next = [...old];
  const index = old.length === 0 ? 0 : edit.at % old.length;
  const there = old[index];
  switch (edit.act) {
    case "append":
      return [...old, { id: newId(), ...edit.content }];
    case "insert":
      return next.toSpliced(index, 0, { id: newId(), ...edit.content });
    case "edit":
      return there ? next.toSpliced(index, 1, { ...edit.content, id: there.id }) : next;
    case "remove":
      return next.toSpliced(index, 1);
    case "swap":
      return there ? [there, ...next.toSpliced(index, 1)] : next;
    case "repeat":
      return there ? [...next, there] : next;
    case "rotate":
      return [...next.slice(index), ...next.slice(0, index)];
    case "compact":
      return [{ id: newId(), ...edit.content }, ...next.slice(index)];
  }
}
