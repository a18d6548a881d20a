import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { defineConfig } from "tsdown";

/** The native compiler generates the declarations in a quarter of the time. */
const COMPILER = fileURLToPath(new URL("./node_modules/typescript-native/bin/tsc", import.meta.url));

/**
 * Modules that hooks and `status` load, bundled into three files: each file that Node loads costs a
 * millisecond, and an agent waits for its hooks. All other modules go where they are used.
 * `test/package/cold-start.mjs` limits the bytes that a start loads.
 */
const COLD_START = [
  group("base", 2, [
    "model/(errors|names|stream/cursor)",
    "hooks/(?!agent-edits|briefing|claim-warning|background)[^/]*",
    "operations/(project-files|store-place)",
    "project-place",
    "project-trust",
  ]),
  group("look", 1, [
    "hooks/briefing",
    "model/(json|visible-text|stream/(event|facets))",
    "model/goal/(?!event-schemas|note-records|goal-kind|index)[^/]*",
    "operations/(current-goal|moved-store)",
    "goal/(briefing|file-check|session-acts)",
    "journal/(reading|codec)",
  ]),
  // A hook loads it alone for a command that a rule names.
  group("secrets", 3, ["model/secrets"]),
  group("sqlite", 0, ["stores/(sqlite/(?!schema-)|kit/)[^/]*", "open-store"]),
];

/**
 * The program gets Node's modules without an import: an import of `node:fs` loads its streams too, which takes a
 * hook longer than its work. The entries for users keep their imports, which bundlers understand.
 */
const builtinModules = {
  name: "builtin-modules",
  renderChunk(code: string, { name, isEntry }: { readonly name: string; readonly isEntry: boolean }) {
    if (isEntry && name !== "cli") return null;
    return code.replaceAll(
      /^import ([\w$]+|\{[^}]*\}) from "(node:[\w/]+)";$/gm,
      (_, names: string, module: string) =>
        `const ${names.replaceAll(" as ", ": ")} = process.getBuiltinModule("${module}");`,
    );
  },
};

/** Declarations (.d.ts) are excluded: the bundler would leave them out of the package. */
function group(name: string, priority: number, modules: readonly string[]) {
  return { name, priority, test: new RegExp(`src/(${modules.join("|")})(?<!\\.d)\\.ts$`) };
}

/** Bundled, because its many files cost half a start of Node. Its license is included. */
const BUNDLED = ["zod"];

export default defineConfig({
  entry: {
    index: "src/index.ts",
    testing: "src/testing/index.ts",
    cli: "src/cli/main.ts",
    langgraph: "src/integrations/langgraph/index.ts",
    "ai-sdk": "src/integrations/ai-sdk/index.ts",
    "chat-transport": "src/integrations/chat-transport/index.ts",
    anthropic: "src/integrations/anthropic/index.ts",
    openai: "src/integrations/openai/index.ts",
    "openai-agents": "src/integrations/openai-agents/index.ts",
    "claude-agent-sdk": "src/integrations/claude-agent-sdk/index.ts",
  },
  format: "esm",
  platform: "node",
  target: "node20.19",
  dts: { tsconfig: "tsconfig.package.json", tsgo: { path: COMPILER } },
  fixedExtension: false,
  // Types and documentation are in the declarations; without comments a start reads a sixth less.
  outputOptions: { comments: false, codeSplitting: { groups: COLD_START } },
  // Node 20 does not list node:sqlite among its builtins, so the bundler there would try to resolve it.
  deps: {
    neverBundle: [
      /^node:/,
      /^@langchain\//,
      /^@anthropic-ai\//,
      /^@openai\//,
      /^openai(\/|$)/,
      /^ai(\/|$)/,
      /^@ai-sdk\//,
    ],
    alwaysBundle: BUNDLED,
  },
  plugins: [builtinModules],
  // The page of `holdfast ui` is for a browser, so it is a bundle of its own.
  hooks: { "build:done": () => void execFileSync(process.execPath, ["scripts/build-page.mjs", "dist/ui"]) },
  copy: [
    { from: "node_modules/zod/LICENSE", to: "dist/licenses", rename: "zod.txt" },
    { from: "node_modules/preact/LICENSE", to: "dist/licenses", rename: "preact.txt" },
    { from: "node_modules/@preact/signals/LICENSE", to: "dist/licenses", rename: "preact-signals.txt" },
    { from: "node_modules/uplot/LICENSE", to: "dist/licenses", rename: "uplot.txt" },
  ],
});
