/** Commands for what a goal remembers: decisions, facts, files. */

import { type Command, command } from "./command.ts";
import { Misuse } from "./failure.ts";
import * as page from "./pages.ts";
import { alternative, jsonOrText, list } from "./values.ts";

export const noteCommands: readonly Command[] = [
  command({
    words: "decide",
    operation: "decide",
    about: "record a decision",
    args: [["<decision>", "what was decided"]],
    options: [
      ["--for <context>", "what it was needed for", "required"],
      ["--because <reason>", "why", "required"],
      ["--type <type>", "technology, architecture (default), trade-off, preference, constraint"],
      ["--not <option...>", '"option: why not"'],
      ["--final", "it cannot be taken back"],
      ["--file <path...>", "files it is about"],
      ["--supersedes <decision>", "the decision that this one replaces"],
    ],
    input: ([decision], options) => ({
      decision,
      context: options["for"],
      reason: options["because"],
      type: options["type"],
      alternatives: list(options["not"])?.map(alternative),
      reversible: options["final"] !== true,
      files: list(options["file"]),
      supersedes: options["supersedes"],
    }),
    page: ({ id, decision, context }) => `${id}  ${decision} for ${context}\n`,
  }),
  command({
    words: "decisions",
    operation: "decisions",
    about: "what was decided",
    args: [["[words...]", "all of which occur in it"]],
    options: [
      ["--type <type>", "only of this type"],
      ["--file <path>", "only about this file"],
      ["--superseded", "replaced ones too"],
    ],
    input: (words, { type, file, superseded }) => ({
      text: words.length === 0 ? undefined : words.join(" "),
      type,
      file,
      superseded,
    }),
    page: ({ decisions }, screen) =>
      decisions.length === 0 ? "no such decisions\n" : page.decisionTable(decisions, screen),
  }),
  command({
    words: "fact",
    operation: "fact",
    about: "remember something that was found out",
    args: [
      ["<key>", "what it is called"],
      ["<value>", "JSON, or words"],
    ],
    options: [["--source <text>", "where it is known from", "required"]],
    input: ([key, value], { source }) => ({ key, value: jsonOrText(value), source }),
    page: ({ key, value }) => `${key} = ${page.valueText(value)}\n`,
  }),
  command({
    words: "facts",
    operation: "facts",
    about: "what is known",
    args: [["[key]", "only this one"]],
    input: ([key]) => ({ key }),
    page: ({ facts }, screen) => page.factTable(facts, screen),
  }),
  command({
    words: "remember",
    operation: "remember files",
    about: "remember files as they are now; whoever comes next is told if they have changed since",
    args: [["<file...>", "below the project's root"]],
    options: [
      ["--read", "they were only read"],
      ["--deleted", "they are gone, and meant to be"],
      ["--task <task>", "for which task"],
      ["--session <session>", "in which session"],
    ],
    input: (files, { read, deleted, task, session }) => {
      if (read && deleted) throw new Misuse("--read and --deleted at once", "Say one of them.");
      const act = deleted ? "deleted" : read ? "examined" : "modified";
      return { files: files.map((path) => ({ path, act })), task, session };
    },
    page: ({ files }) => `remembered ${files.join(", ")}\n`,
  }),
  command({
    words: "forget",
    operation: "forget",
    about: "take back a fact",
    args: [["<key>", "which one"]],
    options: [["--why <text>", "why it is not true any more", "required"]],
    input: ([key], { why }) => ({ key, why }),
    page: ({ key }) => `forgot ${key}\n`,
  }),
];
