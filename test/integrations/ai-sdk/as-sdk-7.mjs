// Gives the tests AI SDK 7 and its providers where they import AI SDK 6: HOLDFAST_AI_SDK=7 (vitest.config.ts).
// AI SDK 7 needs Node 22. Programs of the tests are bundled with it by test/program.ts.

import { registerHooks } from "node:module";

const INSTEAD = {
  ai: "ai-7",
  "ai/test": "ai-7/test",
  "@ai-sdk/anthropic": "@ai-sdk/anthropic-4",
  "@ai-sdk/openai": "@ai-sdk/openai-4",
};

registerHooks({
  resolve: (name, context, next) =>
    next(context.parentURL?.includes("/node_modules/") ? name : (INSTEAD[name] ?? name), context),
});
