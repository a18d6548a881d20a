// The exports are read from the types of src/index.ts, so that every addition needs an example.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { SHOWN_BY } from "./shown-by.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const entry = fileURLToPath(new URL("../../src/index.ts", import.meta.url));

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  allowImportingTsExtensions: true,
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  types: [],
};

/**
 * Reads only our sources and the language, because declarations of packages would double the work. A public
 * type from a package is unknown here, so `known` rejects it.
 */
function hostWithoutPackages(): ts.CompilerHost {
  const own = (name: string, from: string): ts.ResolvedModuleFull | undefined =>
    name.startsWith(".")
      ? { resolvedFileName: join(dirname(from), name), extension: ts.Extension.Ts }
      : undefined;
  return {
    ...ts.createCompilerHost(OPTIONS),
    resolveModuleNameLiterals: (literals, from) =>
      literals.map(({ text }) => ({ resolvedModule: own(text, from) })),
  };
}

function known(type: ts.Type, what: string): ts.Type {
  const isUnknown = (type.flags & ts.TypeFlags.Any) !== 0;
  if (isUnknown) throw new Error(`${what} is of a type from a package, which is not read here`);
  return type;
}

/**
 * Methods for other parts of the library are marked `@internal`. The published declarations leave them out.
 */
function isForUsers(symbol: ts.Symbol): boolean {
  return !symbol.getJsDocTags().some(({ name }) => name === "internal");
}

function isPublic(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).every((declaration) => {
    const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
    return (ts.getCombinedModifierFlags(declaration) & hidden) === 0;
  });
}

/** Methods of a class and its base classes, without private ones and symbols such as asyncDispose. */
function methodsOf(type: ts.Type, checker: ts.TypeChecker): string[] {
  return checker
    .getPropertiesOfType(type)
    .filter(
      (symbol) => (symbol.flags & ts.SymbolFlags.Method) !== 0 && isPublic(symbol) && isForUsers(symbol),
    )
    .map((symbol) => symbol.name)
    .filter((name) => !name.startsWith("__@"));
}

/** The base class of a class must be known, and so must the base class of that one. */
function refuseUnknownAbove(symbol: ts.Symbol, checker: ts.TypeChecker): void {
  const clauses = (symbol.declarations ?? [])
    .filter(ts.isClassDeclaration)
    .flatMap(({ heritageClauses = [] }) => heritageClauses);
  for (const { token, types } of clauses) {
    if (token !== ts.SyntaxKind.ExtendsKeyword) continue;
    for (const each of types) {
      const above = known(checker.getTypeAtLocation(each), `what ${symbol.name} extends`).getSymbol();
      if (above) refuseUnknownAbove(above, checker);
    }
  }
}

/** Exported classes, and classes that a user reaches by a property of one, such as `holdfast.calls`. */
function classesOf(exported: readonly ts.Symbol[], checker: ts.TypeChecker): Map<string, ts.Type> {
  const found = new Map<string, ts.Type>();
  const visit = (symbol: ts.Symbol): void => {
    if ((symbol.flags & ts.SymbolFlags.Class) === 0 || found.has(symbol.name)) return;
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    refuseUnknownAbove(symbol, checker);
    found.set(symbol.name, type);
    if (symbol.name !== "Holdfast") return;
    for (const property of checker.getPropertiesOfType(type).filter(isPublic)) {
      const target = known(checker.getTypeOfSymbol(property), `Holdfast.${property.name}`).getSymbol();
      if (target) visit(target);
    }
  };
  for (const symbol of exported) visit(symbol);
  return found;
}

/**
 * Everything stays within this function, because the program takes more memory than most suites and must be
 * freed.
 */
function publicApi(): string[] {
  const program = ts.createProgram([entry], OPTIONS, hostWithoutPackages());
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(entry) as ts.SourceFile) as ts.Symbol;
  const exported = checker.getExportsOfModule(module).map((symbol) => {
    return (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol;
  });
  const functions = exported.filter((symbol) => (symbol.flags & ts.SymbolFlags.Function) !== 0);
  const names = functions.map((symbol) => symbol.name);
  for (const [name, type] of classesOf(exported, checker)) {
    // Users construct errors. All other classes are returned to them.
    const isError = checker.getPropertiesOfType(type).some((property) => property.name === "stack");
    if (isError) names.push(name);
    else names.push(...methodsOf(type, checker).map((method) => `${name}.${method}`));
  }
  return names.sort();
}

describe("every public function and method", () => {
  const names = publicApi();

  test("is found", () => {
    expect(names).toEqual(
      expect.arrayContaining(["open", "tool", "DefiniteFailure", "Session.run", "OpenCalls.resolve"]),
    );
  });

  test("has an example: add a missing one to examples/ and to shown-by.ts", () => {
    expect(names.filter((name) => SHOWN_BY[name] === undefined)).toEqual([]);
  });

  test("and no example is listed for a removed method", () => {
    expect(Object.keys(SHOWN_BY).filter((name) => !names.includes(name))).toEqual([]);
  });

  test("and every listed example exists", () => {
    const missing = Object.values(SHOWN_BY).filter((name) => !existsSync(`${root}/examples/${name}.ts`));
    expect(missing).toEqual([]);
  });
});
