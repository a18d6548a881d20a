/** Every command that is one operation, and under which heading help shows it. */

import type { Command } from "./command.ts";
import { goalCommands } from "./goal-commands.ts";
import { noteCommands } from "./note-commands.ts";
import { setupCommands } from "./setup-commands.ts";
import { storeCommands } from "./store-commands.ts";

export const COMMANDS: readonly Command[] = [
  ...setupCommands,
  ...storeCommands,
  ...goalCommands,
  ...noteCommands,
];

/** Commands of several words, by the first. */
export const GROUPS: Readonly<Record<string, string>> = {
  goal: "begin, show and list goals",
  task: "plan tasks, take them, hand them in",
  block: "what keeps work from going on",
  session: "look at sessions, fork and cancel them",
  schema: "a project's own schemas",
};

export const HEADINGS: readonly (readonly [heading: string, verbs: readonly string[]])[] = [
  ["At a glance", ["status", "watch", "brief", "next", "doctor"]],
  [
    "Goals",
    [
      "goal",
      "task",
      "decide",
      "decisions",
      "fact",
      "facts",
      "forget",
      "remember",
      "block",
      "blockers",
      "move",
    ],
  ],
  ["Sessions", ["resume", "handoff", "session", "calls", "resolve", "mcp"]],
  ["Setting up", ["init", "hook", "schema", "completion", "demo", "torture"]],
  ["The store", ["check", "rebuild", "migrate", "prune", "supervise", "copy", "export", "import"]],
];
