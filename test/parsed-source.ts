/**
 * Parses TypeScript files for rules that check them. The native parser takes a fraction of a millisecond;
 * handing over the tree takes several times that. So trees are built only where needed, and not cached.
 */

import { type ESTree, type ParseResult, parseSync, Visitor, type VisitorObject } from "rolldown/utils";

/**
 * A module that a file names: static, re-exported, dynamic, in a type, or in `new URL(…, import.meta.url)`.
 */
export interface Named {
  readonly specifier: string;
  /** Undefined if everything is imported: a namespace, `export *`, or an import without a list. */
  readonly names: readonly string[] | undefined;
}

const known = new Map<string, { readonly text: string; readonly named: readonly Named[] }>();

/** Cached, because several rules ask for the same file. */
export function namedIn(path: string, text: string): readonly Named[] {
  const before = known.get(path);
  if (before?.text === text) return before.named;
  const named = namedInStatements(path, text) ?? namedInTree(path, text);
  known.set(path, { text, named });
  return named;
}

export function visit(path: string, text: string, visitor: VisitorObject): void {
  new Visitor(visitor).visit(parse(path, text, "ts").program);
}

/** The text of each comment. Consecutive line comments are one. */
export function commentsIn(path: string, text: string): string[] {
  const found: { text: string; end: number }[] = [];
  for (const { type, value, start, end } of parse(path, text, "ts").comments) {
    const last = found.at(-1);
    if (type === "Line" && last && /^\n[ \t]*$/.test(text.slice(last.end, start))) {
      last.text += `\n${value}`;
      last.end = end;
    } else found.push({ text: value.replace(/^\*|^[ \t]*\* ?/gm, ""), end });
  }
  return found.map((each) => each.text).filter((each) => !/biome-ignore|@ts-/.test(each));
}

export type { ESTree };

export const textOf = (node: ESTree.Span, text: string): string => text.slice(node.start, node.end);

function parse(path: string, text: string, astType: "js" | "ts"): ParseResult {
  const source = parseSync(path, text, { sourceType: "module", astType });
  const [error] = source.errors;
  // After a parse error the tree may be empty, and an empty file would break no rule.
  if (error) throw new Error(`${path} cannot be parsed: ${error.message}`);
  return source;
}

/**
 * Modules named by top-level statements, from the parser's list. Each statement accounts for one word
 * `import` or `export` in the text. If a word is left over (a dynamic import, a type, `import.meta`, a
 * comment), the list is incomplete and this returns undefined.
 */
function namedInStatements(path: string, text: string): Named[] | undefined {
  // The parser also serialises the tree, which is a third smaller without types.
  const { module } = parse(path, text, "js");
  const statements = new Map<number, Named[]>();
  for (const { start, entries } of module.staticExports) {
    const from = entries[0]?.moduleRequest;
    statements.set(start, from ? [{ specifier: from.value, names: listed(entries.map(nameOfEntry)) }] : []);
  }
  // An import that is exported later is also listed as an export, at the place of its import.
  for (const { start, moduleRequest, entries } of module.staticImports) {
    statements.set(start, [{ specifier: moduleRequest.value, names: listed(entries.map(nameOfEntry)) }]);
  }
  const words = text.match(/\b(import|export)\b/g) ?? [];
  return words.length === statements.size ? [...statements.values()].flat() : undefined;
}

function namedInTree(path: string, text: string): Named[] {
  const found: Named[] = [];
  const note = (node: ESTree.Node | null | undefined, names?: readonly string[]): void => {
    const specifier = node ? stringIn(node) : undefined;
    if (specifier !== undefined) found.push({ specifier, names });
  };
  visit(path, text, {
    ImportDeclaration: ({ source, specifiers }) => note(source, listed(specifiers.map(nameOfSpecifier))),
    ExportNamedDeclaration: ({ source, specifiers }) => note(source, listed(specifiers.map(nameOfSpecifier))),
    ExportAllDeclaration: ({ source }) => note(source),
    ImportExpression: ({ source }) => note(source),
    TSImportType: ({ source }) => note(source),
    NewExpression: ({ callee, arguments: [specifier, base] }) => {
      const isUrl = textOf(callee, text) === "URL" && base && textOf(base, text) === "import.meta.url";
      if (isUrl) note(specifier);
    },
  });
  return found;
}

/** A string literal, or a template without substitutions. */
function stringIn(node: ESTree.Node): string | undefined {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : undefined;
  if (node.type !== "TemplateLiteral" || node.expressions.length > 0) return undefined;
  return node.quasis[0]?.value.cooked ?? undefined;
}

/** An undefined name stands for all exports of the module. */
function listed(names: readonly (string | undefined)[]): readonly string[] | undefined {
  const given = names.filter((name) => name !== undefined);
  return given.length > 0 && given.length === names.length ? given : undefined;
}

const nameOfEntry = ({ importName }: { importName: { kind: string; name: string | null } }) =>
  importName.kind === "Default" ? "default" : (importName.name ?? undefined);

function nameOfSpecifier(
  node: ESTree.ImportDeclarationSpecifier | ESTree.ExportSpecifier,
): string | undefined {
  if (node.type === "ImportDefaultSpecifier") return "default";
  if (node.type === "ImportNamespaceSpecifier") return undefined;
  const name = node.type === "ImportSpecifier" ? node.imported : node.local;
  return name.type === "Literal" ? name.value : name.name;
}
