/**
 * The API pages: every exported name with its declaration and its JSDoc, one page per entry point. The
 * declarations are source text, without bodies and without members that are private or `@internal`.
 */

import { dirname, join } from "node:path";
import ts from "typescript";

/** Entry points: the page, the import path, the source. */
const ENTRIES: readonly (readonly [page: string, path: string, source: string])[] = [
  ["holdfast", "holdfast", "src/index.ts"],
  ["testing", "holdfast/testing", "src/testing/index.ts"],
  ["ai-sdk", "holdfast/ai-sdk", "src/integrations/ai-sdk/index.ts"],
  ["chat-transport", "holdfast/chat-transport", "src/integrations/chat-transport/index.ts"],
  ["langgraph", "holdfast/langgraph", "src/integrations/langgraph/index.ts"],
  ["openai", "holdfast/openai", "src/integrations/openai/index.ts"],
  ["openai-agents", "holdfast/openai-agents", "src/integrations/openai-agents/index.ts"],
  ["anthropic", "holdfast/anthropic", "src/integrations/anthropic/index.ts"],
  ["claude-agent-sdk", "holdfast/claude-agent-sdk", "src/integrations/claude-agent-sdk/index.ts"],
];

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  allowImportingTsExtensions: true,
  noEmit: true,
  noLib: true,
  types: [],
};

export interface ApiReference {
  /** Path and text of each page. */
  readonly pages: readonly (readonly [path: string, text: string])[];
  /** Public names without JSDoc, and functions and classes without an example. */
  readonly gaps: readonly string[];
}

export function apiReference(root: string): ApiReference {
  const program = ts.createProgram(
    ENTRIES.map(([, , source]) => join(root, source)),
    OPTIONS,
    ownSourcesOnly(),
  );
  const checker = program.getTypeChecker();
  const entries = ENTRIES.map(([page, path, source]) => {
    const file = program.getSourceFile(join(root, source)) as ts.SourceFile;
    return { page: `docs/reference/api/${page}.md`, path, names: namesOf(file, checker) };
  });
  return {
    pages: entries.map(({ page, path, names }) => [page, apiPage(path, names)]),
    gaps: entries.flatMap(({ path, names }) =>
      names.flatMap(({ name, target }) => gapsOf(`${path} ${name}`, target)),
    ),
  };
}

/** Types of packages are not needed, since the page shows source text. */
function ownSourcesOnly(): ts.CompilerHost {
  return {
    ...ts.createCompilerHost(OPTIONS),
    resolveModuleNameLiterals: (literals, from) =>
      literals.map(({ text }) => ({
        resolvedModule: text.startsWith(".")
          ? { resolvedFileName: join(dirname(from), text), extension: ts.Extension.Ts }
          : undefined,
      })),
  };
}

const KINDS = ["Functions", "Classes", "Types", "Constants"] as const;

interface PublicName {
  readonly name: string;
  readonly target: ts.Symbol;
}

function namesOf(file: ts.SourceFile, checker: ts.TypeChecker): PublicName[] {
  const module = checker.getSymbolAtLocation(file) as ts.Symbol;
  return checker.getExportsOfModule(module).map((symbol) => {
    const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
    return { name: symbol.name, target: isAlias ? checker.getAliasedSymbol(symbol) : symbol };
  });
}

/** An example is an `@example` tag or an indented block. */
function gapsOf(name: string, target: ts.Symbol): string[] {
  const [first] = target.declarations ?? [];
  if (first === undefined) return [];
  const gaps = docOf(first) === "" ? [`${name}: no JSDoc`] : [];
  const needsExample = ts.isFunctionDeclaration(first) || ts.isClassDeclaration(first);
  const hasExample = examplesOf(first).length > 0 || /^ {4}\S/m.test(docOf(first));
  if (needsExample && !hasExample) gaps.push(`${name}: no example`);
  const isOwn = (member: ts.ClassElement): boolean =>
    isPublic(member) && (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Override) === 0;
  const members = ts.isClassDeclaration(first) ? first.members.filter(isOwn) : [];
  const documented = new Set(members.filter((each) => docOf(each) !== "").map((each) => nameOf(each)));
  for (const each of new Set(members.map((member) => nameOf(member)))) {
    if (!documented.has(each)) gaps.push(`${name}.${each}: no JSDoc`);
  }
  const options = ts.isInterfaceDeclaration(first) && name.endsWith("Options") ? first.members : [];
  return [
    ...gaps,
    ...options
      .filter((each) => each.name !== undefined && docOf(each) === "")
      .map((each) => `${name}.${each.name?.getText()}: no JSDoc`),
  ];
}

function apiPage(path: string, names: readonly PublicName[]): string {
  const sections = KINDS.map((kind) => {
    const texts = names
      .filter(({ target }) => kindOf(target) === kind)
      .sort((one, other) => one.name.localeCompare(other.name))
      .map(({ name, target }) => entry(name, target));
    return texts.length > 0 ? `## ${kind}\n\n${texts.join("\n\n")}` : "";
  });
  return `# ${path}\n\n${sections.filter((each) => each !== "").join("\n\n")}`;
}

function kindOf({ flags }: ts.Symbol): (typeof KINDS)[number] {
  if (flags & ts.SymbolFlags.Class) return "Classes";
  if (flags & ts.SymbolFlags.Function) return "Functions";
  return flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias) ? "Types" : "Constants";
}

function entry(name: string, target: ts.Symbol): string {
  const declarations = target.declarations ?? [];
  const [first] = declarations;
  if (first === undefined) return `### ${name}`;
  const code = declarations.map((each) => declarationText(each)).join("\n");
  const own = [docOf(first), `\`\`\`ts\n${code}\n\`\`\``, ...examplesOf(first)];
  const members = ts.isClassDeclaration(first) ? first.members.filter(isPublic).map(memberEntry) : [];
  return [`### ${name}`, ...own, ...members].filter((each) => each !== "").join("\n\n");
}

function memberEntry(member: ts.ClassElement): string {
  const code = declarationText(member);
  const parts = [`#### ${nameOf(member)}`, docOf(member), `\`\`\`ts\n${code}\n\`\`\``, ...examplesOf(member)];
  return parts.filter((each) => each !== "").join("\n\n");
}

function nameOf(member: ts.ClassElement): string {
  return (member.name as ts.Identifier | undefined)?.text ?? "constructor";
}

function isPublic(member: ts.ClassElement): boolean {
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected | ts.ModifierFlags.Static;
  if ((ts.getCombinedModifierFlags(member) & hidden) !== 0) return false;
  if (member.name === undefined || !ts.isIdentifier(member.name)) return false;
  return !ts.getJSDocTags(member).some(({ tagName }) => tagName.text === "internal");
}

/** The text of a declaration without its comment, its body and what is not for users. */
function declarationText(node: ts.Declaration): string {
  const file = node.getSourceFile();
  const text = (from: number, to: number): string => dedent(file.text.slice(from, to).trim());
  const start = node.getStart(file);
  if (ts.isClassDeclaration(node)) {
    const open = file.text.indexOf("{", (node.heritageClauses?.end ?? node.name?.end ?? start) - 1);
    return `${text(start, open)} { … }`;
  }
  if (ts.isFunctionLike(node)) {
    const { body } = node as ts.FunctionLikeDeclaration;
    return text(start, body?.getStart(file) ?? node.end);
  }
  if (ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) {
    const end = node.type?.end ?? node.name.end;
    return `${ts.isVariableDeclaration(node) ? "const " : ""}${text(start, end)}`;
  }
  return text(start, node.end);
}

/** Members of a class are indented in the source. */
function dedent(text: string): string {
  const [head = "", ...rest] = text.split("\n");
  const depths = rest
    .filter((line) => line.trim() !== "")
    .map((line) => line.length - line.trimStart().length);
  const least = Math.min(...depths);
  const isInner = rest.length > 0 && least > 0 && /^[\])}>]/.test(rest.at(-1)?.trim() ?? "");
  return isInner ? [head, ...rest.map((line) => line.slice(least))].join("\n") : text;
}

function commentOf(node: ts.Node): string {
  const holder = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  const docs = (holder as { jsDoc?: readonly ts.JSDoc[] }).jsDoc ?? [];
  const raw = docs.at(-1)?.getText() ?? "";
  return raw
    .replace(/^\/\*\*/, "")
    .replace(/\*\/$/, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

function docOf(node: ts.Node): string {
  const [text = ""] = commentOf(node).split(/^@\w+/m);
  return text.trim().replace(/(?<!`)<(?=\w)/g, "&lt;");
}

function examplesOf(node: ts.Node): string[] {
  const [, ...tags] = commentOf(node).split(/^@(?=\w)/m);
  return tags
    .filter((tag) => tag.startsWith("example"))
    .map((tag) => `Example:\n\n\`\`\`ts\n${tag.slice("example".length).trim()}\n\`\`\``);
}
