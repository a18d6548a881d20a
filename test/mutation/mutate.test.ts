import { readdirSync, readFileSync } from "node:fs";
import { parseSync } from "rolldown/utils";
import { describe, expect, test } from "vitest";
import { mutate } from "./mutate.ts";

/** A function, and what it has to return. Each of its mutants must return something else for one of them. */
const SAMPLES: Readonly<Record<string, readonly [source: string, cases: readonly (readonly unknown[])[]]>> = {
  "a comparison": [
    "(a, b) => a < b",
    [
      [1, 2],
      [2, 2],
    ],
  ],
  "a logical operator": ["(a, b) => a && b", [[true, false]]],
  "a default": ["(a, b) => a ?? b", [[undefined, 1]]],
  "a negation": ["(a) => !a", [[true]]],
  "a choice": ["(a) => (a ? 1 : 2)", [[true]]],
  "a constant": ["() => true", [[]]],
  "one more": ["(a) => a + 1", [[1]]],
  "a condition": ["(a) => { if (a) { return 1; } return 2; }", [[true], [false]]],
  "a loop's condition": ["(a) => { let n = 0; for (; a.pop(); ) { n += 1; } return n; }", [[[5, 0, 1, 2]]]],
  "an argument": ["(a) => Math.max(a, 3)", [[1]]],
  "a filter": ["(a) => a.filter((each) => each)", [[[1, 0]]]],
  "a quantor": ["(a) => a.some((each) => each)", [[[1, 0]]]],
  "an assignment": ["(a) => { let b = 1; b = a; return b; }", [[2]]],
  "an error": ["(a) => { throw a; }", [[1]]],
  "a break": [
    "(a) => { let n = 0; for (const each of a) { if (each) break; n += 1; } return n; }",
    [[[0, 1, 0]]],
  ],
  "inside a chain": ["(a) => a?.b(1, 1 > 1).c", [[{ b: (_: unknown, yes: boolean) => ({ c: yes }) }]]],
};

type Runnable = (...args: unknown[]) => unknown;

function compile(source: string, active: number): Runnable {
  return new Function("__m", `return ${source}`)((id: number) => id === active) as Runnable;
}

/** Fresh arrays, because a sample may change them. */
const copyOf = (args: readonly unknown[]): unknown[] =>
  args.map((each) => (Array.isArray(each) ? [...each] : each));

function outcome(run: Runnable, args: readonly unknown[]): string {
  try {
    return JSON.stringify({ value: run(...copyOf(args)) });
  } catch (error) {
    return `threw ${error}`;
  }
}

const expressionOf = (text: string): string => text.replace(/^void /, "").replace(/;$/, "");

describe("every mutant changes what a function does, and none while it is switched off", () => {
  test.each(Object.entries(SAMPLES))("%s", (_, [source, cases]) => {
    const { mutants, text } = mutate("sample.ts", `void (${source});`, 1);
    const all = (active: number): string[] =>
      cases.map((args) =>
        outcome(compile(expressionOf(text.replace(/^\{ if \(!__m\(1\)\) (.*) \}$/s, "$1")), active), args),
      );
    const wanted = cases.map((args) => outcome(compile(`(${source})`, 0), args));
    expect(all(0)).toEqual(wanted);
    const [whole, ...inside] = mutants;
    expect(whole?.what).toMatch(/^drop void/);
    expect(inside.length).toBeGreaterThan(0);
    for (const { id, what } of inside) expect(all(id), what).not.toEqual(wanted);
  });
});

test("a missing await lets the next line run too early", async () => {
  const source = "async (log) => { await log('a'); log('b'); }";
  const { mutants, text } = mutate("sample.ts", `void (${source});`, 1);
  const body = expressionOf(text.replace(/^\{ if \(!__m\(1\)\) (.*) \}$/s, "$1"));
  const { id = 0 } = mutants.find(({ what }) => what.startsWith("await")) ?? {};
  const order = async (active: number): Promise<string> => {
    let said = "";
    const log = async (word: string): Promise<void> => {
      await null;
      said += word;
    };
    const slow = (word: string): Promise<void> => (word === "a" ? log("").then(() => log(word)) : log(word));
    await compile(body, active)(slow);
    await log("")
      .then(() => log(""))
      .then(() => log(""));
    return said;
  };
  expect(await order(0)).toBe("ab");
  expect(await order(id)).toBe("ba");
});

test("types, messages of errors and failpoints have no mutants", () => {
  const source = `type A = true; function f(a: 1 | true): void { failpoint("x", 1); new HoldfastError("A", a ? "b" : "c"); }`;
  const { mutants } = mutate("sample.ts", source, 1);
  expect(mutants.map(({ what }) => what)).toEqual([expect.stringMatching(/^drop new HoldfastError/)]);
});

test("sources with all mutants are valid", () => {
  for (const folder of ["src/ledger", "src/journal", "src/stores/sqlite"]) {
    for (const name of readdirSync(folder).filter((each) => each.endsWith(".ts"))) {
      const path = `${folder}/${name}`;
      const { mutants, text } = mutate(path, readFileSync(path, "utf8"), 1);
      expect(parseSync(path, text, { lang: "ts" }).errors, path).toEqual([]);
      expect(new Set(mutants.map(({ id }) => id)).size).toBe(mutants.length);
    }
  }
});
