// What is exported is read from the types of src/index.ts, so that nothing can be added without an example.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { SHOWN_BY } from "./shown-by.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const entry = fileURLToPath(new URL("../../src/index.ts", import.meta.url));

const program = ts.createProgram([entry], {
  target: ts.ScriptTarget.ES2023,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  allowImportingTsExtensions: true,
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  types: ["node"],
});
const checker = program.getTypeChecker();

/** Some methods are there for other parts of the library, and their comments say so. */
function isForUsers(symbol: ts.Symbol): boolean {
  const comment = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  return !/^For the [a-z]+ layer/.test(comment);
}

function isPublic(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).every((declaration) => {
    const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
    return (ts.getCombinedModifierFlags(declaration) & hidden) === 0;
  });
}

/** Methods of a class and of those above it, without private ones and without symbols such as asyncDispose. */
function methodsOf(type: ts.Type): string[] {
  return checker
    .getPropertiesOfType(type)
    .filter(
      (symbol) => (symbol.flags & ts.SymbolFlags.Method) !== 0 && isPublic(symbol) && isForUsers(symbol),
    )
    .map((symbol) => symbol.name)
    .filter((name) => !name.startsWith("__@"));
}

/** Classes that are exported, and those that a user reaches by a property of one, as `holdfast.calls`. */
function classesOf(exported: readonly ts.Symbol[]): Map<string, ts.Type> {
  const found = new Map<string, ts.Type>();
  const visit = (symbol: ts.Symbol): void => {
    if ((symbol.flags & ts.SymbolFlags.Class) === 0 || found.has(symbol.name)) return;
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    found.set(symbol.name, type);
    if (symbol.name !== "Holdfast") return;
    for (const property of checker.getPropertiesOfType(type).filter(isPublic)) {
      const target = checker.getTypeOfSymbol(property).getSymbol();
      if (target) visit(target);
    }
  };
  for (const symbol of exported) visit(symbol);
  return found;
}

function publicApi(): string[] {
  const module = checker.getSymbolAtLocation(program.getSourceFile(entry) as ts.SourceFile) as ts.Symbol;
  const exported = checker.getExportsOfModule(module).map((symbol) => {
    return (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol;
  });
  const functions = exported.filter((symbol) => (symbol.flags & ts.SymbolFlags.Function) !== 0);
  const names = functions.map((symbol) => symbol.name);
  for (const [name, type] of classesOf(exported)) {
    // Errors are made by users; what else is a class is handed to them.
    const isError = checker.getPropertiesOfType(type).some((property) => property.name === "stack");
    if (isError) names.push(name);
    else names.push(...methodsOf(type).map((method) => `${name}.${method}`));
  }
  return names.sort();
}

describe("every public function and method", () => {
  const names = publicApi();

  test("is found", () => {
    expect(names).toEqual(
      expect.arrayContaining(["open", "tool", "DefiniteFailure", "Session.run", "CallDesk.resolve"]),
    );
  });

  test("has an example: add a missing one to examples/ and to shown-by.ts", () => {
    expect(names.filter((name) => SHOWN_BY[name] === undefined)).toEqual([]);
  });

  test("and no example shows what is no longer there", () => {
    expect(Object.keys(SHOWN_BY).filter((name) => !names.includes(name))).toEqual([]);
  });

  test("and the examples exist", () => {
    const missing = Object.values(SHOWN_BY).filter((name) => !existsSync(`${root}/examples/${name}.ts`));
    expect(missing).toEqual([]);
  });
});
