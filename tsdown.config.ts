import { fileURLToPath } from "node:url";
import { defineConfig } from "tsdown";

/** The compiler that is a program and not a library makes the declarations in a quarter of the time. */
const COMPILER = fileURLToPath(new URL("./node_modules/typescript-native/bin/tsc", import.meta.url));

/**
 * What hooks and `status` load, in three files instead of twenty: each file that Node loads costs a millisecond, and an agent
 * waits for its hooks. A module that is not named here goes where it is needed, as before. Declarations (.d.ts) are none of
 * them: put into a group, they would be left out of the package.
 */
const COLD_START = [
  {
    name: "base",
    test: /src\/(model\/(errors|digest|names|options|stream\/cursor)|hooks\/(?!briefing-side|foreseen|taking-in|store-side|background)[^/]*|operations\/(named-file|store-place|nearest)|wiring\/sample-input)(?<!\.d)\.ts$/,
    priority: 2,
  },
  {
    name: "look",
    test: /src\/(hooks\/(briefing-side|foreseen|taking-in)|model\/(json|stream\/(event|facets))|model\/goal\/(?!.*schemas|field|goal-events|goal-kind|index)[^/]*|operations\/(current-goal|moved-store)|goal\/(briefing|briefing-sections|quoted-text|age|brief-look|file-verdict|session-acts)|journal\/(reading|codec))(?<!\.d)\.ts$/,
    priority: 1,
  },
  { name: "sqlite", test: /src\/(stores\/sqlite\/(?!schema-)[^/]*|open-store)(?<!\.d)\.ts$/, priority: 0 },
];

/** Bundled, since from their own many files zod costs half a start of Node, and uuid a sixth. Their licenses come along. */
const BUNDLED = ["zod", "uuid"];

export default defineConfig({
  entry: {
    index: "src/index.ts",
    testing: "src/testing/index.ts",
    cli: "src/cli/main.ts",
    langgraph: "src/integrations/langgraph/index.ts",
    "ai-sdk": "src/integrations/ai-sdk/index.ts",
    anthropic: "src/integrations/anthropic/index.ts",
    "openai-agents": "src/integrations/openai-agents/index.ts",
  },
  format: "esm",
  platform: "node",
  target: "node20.19",
  dts: { tsconfig: "tsconfig.package.json", tsgo: { path: COMPILER } },
  sourcemap: true,
  fixedExtension: false,
  outputOptions: { codeSplitting: { groups: COLD_START } },
  // Node 20 does not list node:sqlite among its builtins, so the bundler there would try to resolve it.
  deps: {
    neverBundle: [/^node:/, /^@langchain\//, /^@anthropic-ai\//, /^@openai\//, /^ai(\/|$)/, /^@ai-sdk\//],
    alwaysBundle: BUNDLED,
  },
  copy: [
    { from: "node_modules/zod/LICENSE", to: "dist/licenses", rename: "zod.txt" },
    { from: "node_modules/uuid/LICENSE.md", to: "dist/licenses", rename: "uuid.txt" },
  ],
});
