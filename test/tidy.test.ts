// Checks the code itself. The tables hold the rules' data. Each rule is a pure function from a set of files
// to its violations. Every rule is also tried on a planted violation: a rule that cannot fail protects
// nothing.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { commentsIn, type ESTree, type Named, namedIn, textOf, visit } from "./parsed-source.ts";

/** Lowest first. A part imports from rows below its own, never from its own row or above. */
const LAYERS: readonly (readonly string[])[] = [
  ["model", "failpoint.ts", "process-facts.ts", "project-place.ts"],
  ["store.ts", "project-trust.ts", "loopback-http.ts", "signing"],
  ["stores", "journal"],
  ["ledger", "encryption"],
  ["session", "goal", "state-files"],
  ["projections", "supervisor", "wiring", "agent-sessions"],
  ["open-store.ts", "config"],
  ["open.ts"],
  ["operations"],
  ["mcp", "hooks", "web", "integrations", "testing", "index.ts"],
  ["cli"],
];

/** Parts that may see less than all the rows below them. */
const SEES_ONLY: Readonly<Record<string, readonly string[]>> = { stores: ["model", "store.ts"] };

/** The composition root and the doors: only they may name a concrete store. */
const NAMES_STORES = ["index.ts", "open-store.ts", "open.ts", "testing"];

/** The code that stores share. Each store may use it, through its door. */
const STORE_KIT = "src/stores/kit/index.ts";

/** A store composed of others, and their doors. */
const STANDS_ON: Readonly<Record<string, readonly string[]>> = {
  "src/stores/files": ["src/stores/memory/index.ts", "src/stores/sqlite/index.ts"],
};

/** Imports that the pure part may have: these packages, and the listed names of builtins. */
const PURE_PART = "src/model/";
const PURE_PACKAGES = ["zod"];
const PURE_BUILTINS: Readonly<Record<string, readonly string[]>> = { "node:crypto": ["hash"] };
const IMPURE_CALLS = ["Date", "Date.now", "Math.random", "performance.now", "crypto.randomUUID"];

const ENTRY_POINTS = [
  "src/index.ts",
  "src/testing/index.ts",
  "src/cli/main.ts",
  "src/integrations/langgraph/index.ts",
  "src/integrations/openai-agents/index.ts",
  "src/integrations/claude-agent-sdk/index.ts",
  "src/integrations/ai-sdk/index.ts",
  "src/integrations/chat-transport/index.ts",
  "src/integrations/anthropic/index.ts",
  "src/integrations/openai/index.ts",
];

/** One idea per file may take this much. */
const FILE_LINES: Readonly<Record<string, number>> = { "src/": 600, "ui/": 600, "test/": 600 };

const FUNCTION_LINES = 60;
const COLUMNS = 110;
const SENTENCE_WORDS = 30;

/** A comment sentence starts with its subject: a noun, a parameter or an identifier. */
const BAD_OPENING = /^(What|Whatever|Whoever|Who|Whom|Whose|Somebody|Nobody|One (that|which|who)|Of|As) /;
/** Words that stand for five different things, or for nothing. */
const BAD_WORDS =
  /\b(whoever|nobody|somebody|taken in|takes in|take in|is told|are told|is heard|goes on with|as good as)\b/i;

/** Documents whose paths must exist. */
const MAPS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/why/invariants.md"];

const CODE = /^(src|ui|test|bench|demo|torture|examples|scripts)\/.*\.(ts|tsx|mjs|js|sql)$/;
const KEBAB_CASE = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+)*$/;
const NAMES_THAT_SAY_NOTHING = ["utils", "util", "helpers", "helper", "common", "types", "misc"];

/** Written in pieces so that this file does not match itself. */
const MACHINE_PATTERNS = [
  new RegExp(`(?<![\\w.-])/${"wo"}rk/`),
  new RegExp(`(?<![\\w.-])/${"ro"}ot/`),
  new RegExp(`(?<![\\w.-])/${"Us"}ers/`),
  new RegExp(`registry\\.${"npm"}js`),
];

type Files = ReadonlyMap<string, string>;
type Rule = (files: Files) => string[];

interface Import extends Named {
  readonly from: string;
  /** Path of the imported file in the set, or undefined for a package or builtin. */
  readonly file: string | undefined;
}

const typescriptIn = (files: Files, prefix: string): [string, string][] =>
  [...files].filter(([path]) => path.startsWith(prefix) && path.endsWith(".ts"));

function importsOf(files: Files, prefix: string): Import[] {
  return typescriptIn(files, prefix).flatMap(([from, text]) =>
    namedIn(from, text).map(({ specifier, names }) => {
      const target = join(dirname(from), specifier);
      const file = specifier.startsWith(".") && files.has(target) ? target : undefined;
      return { from, specifier, file, names };
    }),
  );
}

/** The imports between files of src, and the part of the architecture that each end belongs to. */
function edgesInSource(files: Files): { from: string; to: string; fromPart: string; toPart: string }[] {
  const part = (path: string): string => path.split("/")[1] ?? path;
  return importsOf(files, "src/").flatMap(({ from, file }) =>
    file?.startsWith("src/") ? [{ from, to: file, fromPart: part(from), toPart: part(file) }] : [],
  );
}

const rowOf = (part: string): number => LAYERS.findIndex((row) => row.includes(part));

const importsGoDown: Rule = (files) => {
  const strangers = [...files.keys()].filter(
    (path) => path.startsWith("src/") && rowOf(path.split("/")[1] ?? "") < 0,
  );
  const upward = edgesInSource(files).filter(({ fromPart, toPart }) => {
    if (fromPart === toPart) return false;
    return rowOf(toPart) >= rowOf(fromPart) || SEES_ONLY[fromPart]?.includes(toPart) === false;
  });
  return [
    ...strangers.map((path) => `${path} belongs to no layer`),
    ...upward.map(({ from, to }) => `${from} may not import ${to}`),
  ];
};

const storesAreNamedOnlyAtTheRoot: Rule = (files) => {
  const folder = (path: string): string => path.split("/").slice(0, 3).join("/");
  return edgesInSource(files)
    .filter(({ from, to, toPart }) => toPart === "stores" && folder(from) !== folder(to))
    .filter(({ fromPart }) => !NAMES_STORES.includes(fromPart))
    .filter(({ to, fromPart }) => !(fromPart === "stores" && to === STORE_KIT))
    .filter(({ from, to }) => STANDS_ON[folder(from)]?.includes(to) !== true)
    .map(({ from, to }) => `${from} names the store ${to}`);
};

const modelIsPure: Rule = (files) => {
  const outside = importsOf(files, PURE_PART)
    .filter(({ file, specifier, names }) => {
      if (file !== undefined) return false;
      const builtin = PURE_BUILTINS[specifier];
      if (builtin) return names?.every((name) => builtin.includes(name)) !== true;
      return !PURE_PACKAGES.some((name) => specifier === name || specifier.startsWith(`${name}/`));
    })
    .map(({ from, specifier }) => `${from} may not import this from ${specifier}`);
  const suspects = typescriptIn(files, PURE_PART).filter(([, text]) =>
    IMPURE_CALLS.some((call) => text.includes(call)),
  );
  const calls = suspects.flatMap(([path, text]) => {
    const found: string[] = [];
    const note = (called: string): void => {
      if (IMPURE_CALLS.includes(called)) found.push(`${path} calls ${called}`);
    };
    visit(path, text, {
      CallExpression: (call) => note(textOf(call.callee, text)),
      NewExpression: (made) => {
        if (made.arguments.length === 0) note(textOf(made.callee, text));
      },
    });
    return found;
  });
  return [...outside, ...calls];
};

const foldersAreEnteredByTheirIndex: Rule = (files) =>
  ["src/", "test/", "bench/", "examples/"].flatMap((prefix) =>
    importsOf(files, prefix).flatMap(({ from, file }) => {
      if (!file?.startsWith("src/")) return [];
      const folders = file.split("/").slice(0, -1);
      // src itself is not such a folder: its index.ts is the door of the package, not between its parts.
      const doors = folders.map((_, depth) => `${folders.slice(0, depth + 1).join("/")}/index.ts`).slice(1);
      return doors
        .filter((door) => files.has(door) && door !== file && !from.startsWith(`${dirname(door)}/`))
        .map((door) => `${from} reaches past ${door} to ${file}`);
    }),
  );

const noImportCycles: Rule = (files) => {
  const edges = edgesInSource(files);
  const done = new Set<string>();
  const cycles: string[] = [];
  const walk = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) cycles.push([...trail.slice(trail.indexOf(path)), path].join(" > "));
    if (trail.includes(path) || done.has(path)) return;
    for (const { from, to } of edges) if (from === path) walk(to, [...trail, path]);
    done.add(path);
  };
  for (const { from } of edges) walk(from, []);
  return cycles;
};

const everyFileIsReachable: Rule = (files) => {
  const edges = edgesInSource(files);
  const reached = new Set(ENTRY_POINTS);
  // A set visits what is added to it while it is iterated.
  for (const path of reached) for (const { from, to } of edges) if (from === path) reached.add(to);
  return typescriptIn(files, "src/")
    .filter(([path]) => !reached.has(path))
    .map(([path]) => `${path} is not reachable from an entry point`);
};

const filesAreShort: Rule = (files) =>
  [...files].flatMap(([path, text]) => {
    const limit = Object.entries(FILE_LINES).find(([prefix]) => path.startsWith(prefix))?.[1];
    const lines = text.replace(/\n$/, "").split("\n").length;
    return CODE.test(path) && limit !== undefined && lines > limit
      ? [`${path} has ${lines} lines, limit ${limit}`]
      : [];
  });

/** Lines of a function without the lines inside its template literals: SQL and printed pages may be long. */
const functionsFitAScreen: Rule = (files) =>
  typescriptIn(files, "src/").flatMap(([path, text]) => {
    const lineAt = (offset: number): number => text.slice(0, offset).split("\n").length;
    const literals: ESTree.Span[] = [];
    const bodies: ESTree.Span[] = [];
    const note = (list: ESTree.Span[]) => (node: ESTree.Span) => void list.push(node);
    visit(path, text, {
      TemplateLiteral: note(literals),
      FunctionDeclaration: note(bodies),
      FunctionExpression: note(bodies),
      ArrowFunctionExpression: note(bodies),
    });
    const lines = ({ start, end }: ESTree.Span): number => lineAt(end) - lineAt(start);
    return bodies.flatMap((body) => {
      const inside = literals.filter(({ start, end }) => start >= body.start && end <= body.end);
      const outer = inside.filter((each) => !inside.some((other) => other !== each && contains(other, each)));
      const count = lines(body) + 1 - outer.reduce((sum, each) => sum + lines(each), 0);
      return count > FUNCTION_LINES ? [`${path}:${lineAt(body.start)} has a function of ${count} lines`] : [];
    });
  });

const contains = (outer: ESTree.Span, inner: ESTree.Span): boolean =>
  outer.start <= inner.start && outer.end >= inner.end;

const linesAreNarrow: Rule = (files) =>
  typescriptIn(files, "src/").flatMap(([path, text]) =>
    text.split("\n").flatMap((line, index) => {
      return line.length > COLUMNS ? [`${path}:${index + 1} has ${line.length} columns`] : [];
    }),
  );

/** The sentences of all comments, without examples, drawings and tables. */
function sentencesOf(path: string, text: string): string[] {
  return commentsIn(path, text).flatMap((comment) => {
    const prose = comment
      .replace(/@example[\s\S]*/, "")
      .replace(/```[\s\S]*?```/g, "")
      .replace(/^(\s{3,}|\s*\|).*$/gm, "");
    const paragraphs = prose.split(/\n\s*\n|\n\s*[-*] /).map((each) => each.replace(/\s+/g, " ").trim());
    return paragraphs.flatMap((each) => each.split(/(?<=[.!?:;]) (?=[A-Z`])/)).filter((each) => each !== "");
  });
}

const commentsArePlain: Rule = (files) =>
  typescriptIn(files, "src/").flatMap(([path, text]) =>
    sentencesOf(path, text).flatMap((sentence) => {
      const start = sentence.slice(0, 50);
      if (BAD_OPENING.test(sentence)) return [`${path}: a sentence does not open with its subject: ${start}`];
      const word = BAD_WORDS.exec(sentence)?.[0];
      if (word) return [`${path}: "${word}" in: ${start}`];
      const words = sentence.split(" ").length;
      return words > SENTENCE_WORDS ? [`${path}: a sentence of ${words} words: ${start}`] : [];
    }),
  );

const mapsAreTrue: Rule = (files) =>
  MAPS.flatMap((map) => {
    const named = (files.get(map) ?? "").matchAll(/`((?:src|test|torture|scripts|docs)\/[\w./-]*)`/g);
    return [...named].flatMap(([, path = ""]) => {
      const isThere = path.endsWith("/")
        ? [...files.keys()].some((each) => each.startsWith(path))
        : files.has(path);
      return isThere || path === "test/node24" ? [] : [`${map} names ${path}, which does not exist`];
    });
  });

const nothingIsHalfMerged: Rule = (files) =>
  [...files]
    .filter(([path, text]) => !path.startsWith("test/") && /^(<{7}|>{7}) /m.test(text))
    .map(([path]) => `${path} holds the marks of a merge conflict`);

const namesAreKebabCase: Rule = (files) =>
  [...files.keys()]
    .filter((path) => CODE.test(path) && !path.split("/").every((name) => KEBAB_CASE.test(name)))
    .map((path) => `${path} is not in kebab-case`);

const namesSaySomething: Rule = (files) =>
  [...files.keys()]
    .filter((path) => CODE.test(path))
    .filter((path) =>
      path.split("/").some((name) => NAMES_THAT_SAY_NOTHING.includes(name.split(".")[0] ?? "")),
    )
    .map((path) => `${path} has a name that says nothing`);

/** Most files have no such text and need no further check. */
const MAY_DROP_AN_ERROR = /\bcatch\b[\s\S]*\{\s*\}/;

const nothingIsCaughtAndDropped: Rule = (files) =>
  typescriptIn(files, "src/")
    .filter(([, text]) => MAY_DROP_AN_ERROR.test(text))
    .flatMap(([path, text]) => {
      const found: string[] = [];
      visit(path, text, {
        CatchClause: ({ body }) => {
          if (/^\{\s*\}$/.test(textOf(body, text))) found.push(`${path} drops an error`);
        },
      });
      return found;
    });

const nothingNamesAMachine: Rule = (files) =>
  [...files]
    .filter(([, text]) => MACHINE_PATTERNS.some((pattern) => pattern.test(text)))
    .map(([path]) => `${path} names a machine path or a registry host`);

/** Each rule with file sets that break it; every set must yield exactly one violation. */
const RULES: Readonly<Record<string, { rule: Rule; planted: Readonly<Record<string, string>>[] }>> = {
  "imports go down only": {
    rule: importsGoDown,
    planted: [
      { "src/model/a.ts": 'import "../store.ts";', "src/store.ts": "" },
      { "src/store.ts": 'export * from "./journal/a.ts";', "src/journal/a.ts": "" },
      { "src/journal/a.ts": 'import type { A } from "../stores/memory/a.ts";', "src/stores/memory/a.ts": "" },
      { "src/stores/memory/a.ts": 'await import("../../journal/a.ts");', "src/journal/a.ts": "" },
      { "src/model/a.ts": 'export type A = import("../store.ts").A;', "src/store.ts": "" },
      {
        "src/model/a.ts": "import { a } from 'a'; const b = import(`../store.ts`); export { a, b };",
        "src/store.ts": "",
      },
      { "src/model/a.ts": 'new URL("../store.ts", import.meta.url);', "src/store.ts": "" },
      { "src/model/a.ts": 'export {} from "../store.ts";', "src/store.ts": "" },
      { "src/session/a.ts": 'import "../goal/a.ts";', "src/goal/a.ts": "" },
      { "src/operations/a.ts": 'import "../cli/a.ts";', "src/cli/a.ts": "" },
      { "src/testing/a.ts": 'import "../mcp/a.ts";', "src/mcp/a.ts": "" },
      { "src/stranger/a.ts": "" },
    ],
  },
  "only the composition root and the doors name a concrete store": {
    rule: storesAreNamedOnlyAtTheRoot,
    planted: [
      { "src/session/a.ts": 'import "../stores/sqlite/a.ts";', "src/stores/sqlite/a.ts": "" },
      { "src/stores/memory/a.ts": 'import "../sqlite/a.ts";', "src/stores/sqlite/a.ts": "" },
      { "src/stores/memory/a.ts": 'import "../kit/a.ts";', "src/stores/kit/a.ts": "" },
    ],
  },
  "the model is pure": {
    rule: modelIsPure,
    planted: [
      { "src/model/a.ts": 'import { readFileSync } from "node:fs";' },
      { "src/model/a.ts": 'import { hash, randomBytes } from "node:crypto";' },
      { "src/model/a.ts": 'import * as crypto from "node:crypto";' },
      { "src/model/a.ts": 'import { v7 } from "uuid";' },
      { "src/model/a.ts": "export const now = () => Date.now();" },
      { "src/model/a.ts": "export const now = () => new Date();" },
      { "src/model/a.ts": "export const dice = () => Math.random();" },
    ],
  },
  "nobody reaches past a folder's index.ts": {
    rule: foldersAreEnteredByTheirIndex,
    planted: [
      { "src/goal/a.ts": 'import "../model/b.ts";', "src/model/b.ts": "", "src/model/index.ts": "" },
      { "test/a.test.ts": 'import "../src/model/b.ts";', "src/model/b.ts": "", "src/model/index.ts": "" },
    ],
  },
  "there are no import cycles": {
    rule: noImportCycles,
    planted: [
      { "src/model/a.ts": 'import "./b.ts";', "src/model/b.ts": 'import "./a.ts";' },
      { "src/model/a.ts": 'import type { A } from "./a.ts";' },
    ],
  },
  "every source file is reachable from an entry point": {
    rule: everyFileIsReachable,
    planted: [{ "src/index.ts": 'export * from "./open.ts";', "src/open.ts": "", "src/dead.ts": "" }],
  },
  "files are short": {
    rule: filesAreShort,
    planted: [{ "src/a.ts": "\n".repeat(601) }, { "test/a.test.ts": "\n".repeat(601) }],
  },
  "functions fit a screen": {
    rule: functionsFitAScreen,
    planted: [
      { "src/a.ts": `export function a() {${"\n".repeat(60)}}` },
      { "src/a.ts": `export const a = () => {${"\n".repeat(60)}};` },
    ],
  },
  "lines are narrow": {
    rule: linesAreNarrow,
    planted: [{ "src/a.ts": `// ${"a".repeat(108)}` }],
  },
  "comments are plain English": {
    rule: commentsArePlain,
    planted: [
      { "src/a.ts": "/** What is left of it. */\nexport const a = 1;" },
      { "src/a.ts": "// The next one is told so.\nexport const a = 1;" },
      { "src/a.ts": `/** ${"word ".repeat(31)}*/\nexport const a = 1;` },
    ],
  },
  "the maps of the project are true": {
    rule: mapsAreTrue,
    planted: [{ "ARCHITECTURE.md": "read `src/gone.ts`" }, { "docs/why/invariants.md": "`test/gone/`" }],
  },
  "no file holds the marks of a merge conflict": {
    rule: nothingIsHalfMerged,
    planted: [{ "README.md": `a\n${"<".repeat(7)} HEAD\n` }],
  },
  "names are in kebab-case": {
    rule: namesAreKebabCase,
    planted: [
      { "src/model/eventLog.ts": "" },
      { "src/Model/event.ts": "" },
      { "test/event_log.test.ts": "" },
    ],
  },
  "names say something": {
    rule: namesSaySomething,
    planted: [{ "src/model/utils.ts": "" }, { "test/helpers/a.ts": "" }, { "src/types.ts": "" }],
  },
  "nothing is caught and dropped": {
    rule: nothingIsCaughtAndDropped,
    planted: [{ "src/a.ts": "try { f(); } catch {}" }, { "src/a.ts": "try { f(); } catch (error) {\n}" }],
  },
  "no tracked file names a machine path or a registry host": {
    rule: nothingNamesAMachine,
    planted: [
      { "docs/a.md": `see /${"wo"}rk/main` },
      { "package-lock.json": `https://registry.${"npm"}js.org` },
    ],
  },
};

/** Files that break no rule. */
const INNOCENT: Readonly<Record<string, string>> = {
  "src/index.ts": 'export * from "./open.ts";',
  "src/open.ts": 'import "./journal/index.ts";\nimport "./stores/sqlite/index.ts";',
  "src/journal/index.ts": 'import "./fold.ts";\nimport "./sql.ts";\nimport "../store.ts";',
  "src/journal/fold.ts": "try { f(); } catch { /* The reader rereads. */ }",
  "src/journal/sql.ts": `/**\n * A table:\n *\n *     what     whoever\n */\nconst a = () => \`${"\n".repeat(80)}\`;`,
  "ARCHITECTURE.md": "read `src/store.ts` and `src/journal/`",
  "src/store.ts": 'import type { A } from "./model/index.ts";',
  "src/model/index.ts":
    'import { hash } from "node:crypto";\nimport { z } from "zod/mini";\nnew Date(0); // not Date.now()',
  "src/stores/sqlite/index.ts": 'import "../../store.ts";\nimport "./driver.ts";',
  "src/stores/sqlite/driver.ts": 'new URL("./thread.ts", import.meta.url);',
  "src/stores/sqlite/thread.ts": "",
  "src/stores/sqlite/001-first.sql": "",
  "test/store.test.ts": 'import "../src/model/index.ts";',
  "README.md": `https://example.com/${"wo"}rk/`,
};

const root = fileURLToPath(new URL("..", import.meta.url));

let filesRead: Files | undefined;

/** Everything that git tracks or would track, without binaries. */
function filesOfTheProject(): Files {
  filesRead ??= readProject();
  return filesRead;
}

function readProject(): Files {
  const listing = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
  });
  const paths = listing.toString().split("\0");
  const present = paths.filter((path) => path !== "" && existsSync(join(root, path)));
  const texts = present.map((path) => [path, readFileSync(join(root, path), "utf8")] as const);
  return new Map(texts.filter(([, text]) => !text.includes("\0")));
}

describe.each(Object.entries(RULES))("%s", (_, { rule, planted }) => {
  test("in this project", () => {
    expect(rule(filesOfTheProject())).toEqual([]);
  });

  test.each(planted)("and the rule notices planted violation %#", (files) => {
    expect(rule(new Map(Object.entries(files)))).toHaveLength(1);
  });

  test("and the rule leaves innocent code alone", () => {
    expect(rule(new Map(Object.entries(INNOCENT)))).toEqual([]);
  });
});

test("the project's files are found", () => {
  expect([...filesOfTheProject().keys()]).toEqual(expect.arrayContaining(["package.json", ...ENTRY_POINTS]));
});

test("the manifest says where the project is", () => {
  const manifest = JSON.parse(filesOfTheProject().get("package.json") ?? "") as Record<string, unknown>;
  expect(manifest["homepage"]).toMatch(/^https:\/\//);
  expect(manifest["repository"]).toMatchObject({ type: "git", url: expect.stringMatching(/^git\+https:/) });
});
