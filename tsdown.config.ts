import { defineConfig } from "tsdown";

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
  dts: true,
  sourcemap: true,
  fixedExtension: false,
  // Node 20 does not list node:sqlite among its builtins, so the bundler there would try to resolve it.
  // zod from its own many files costs half a start of Node; bundled it costs a few milliseconds.
  deps: {
    neverBundle: [/^node:/, /^@langchain\//, /^@anthropic-ai\//, /^@openai\//, /^ai(\/|$)/, /^@ai-sdk\//],
    alwaysBundle: ["zod"],
  },
});
