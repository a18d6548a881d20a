/** The table of commands, the headings of the help text, and shell completion. */

import type { Command } from "./command.ts";
import { Misuse } from "./failure.ts";
import { goalCommands, noteCommands } from "./goal-commands.ts";
import { setupCommands } from "./setup-commands.ts";
import { storeCommands } from "./store-commands.ts";

export const COMMANDS: readonly Command[] = [
  ...setupCommands,
  ...storeCommands,
  ...goalCommands,
  ...noteCommands,
];

export const GROUPS: Readonly<Record<string, string>> = {
  goal: "create, show, list and advance goals",
  phase: "add and complete phases",
  plan: "add plans to phases",
  task: "plan, claim and submit tasks",
  block: "record what blocks work",
  session: "show, fork and cancel sessions",
  postgres: "separate tenants in a Postgres store",
  schema: "generate a project's own schemas",
  approver: "choose whose keys answer for tools that require an approver",
  signer: "choose whose signed acts count on this machine",
};

export const HEADINGS: readonly (readonly [heading: string, verbs: readonly string[]])[] = [
  ["At a glance", ["status", "inbox", "watch", "ui", "brief", "next", "doctor", "explain"]],
  ["Start and end work", ["resume", "note", "handoff", "finish"]],
  ["Goals and tasks", ["goal", "phase", "plan", "task", "block", "blockers"]],
  [
    "What a goal remembers",
    [
      ...["decide", "decisions", "fact", "facts", "forget", "built", "remember"],
      ...["error", "events", "retract", "review"],
    ],
  ],
  ["Questions and assumptions", ["ask", "answer", "questions", "assume", "confirm", "refute", "assumptions"]],
  ["Sessions and calls", ["session", "calls", "resolve", "approve", "deny", "ledger", "fleet", "mcp"]],
  [
    "Setting up",
    ["new", "init", "trust", "sign", "signer", "approver", "hook", "schema", "completion", "demo", "torture"],
  ],
  [
    "The store",
    [
      ..."check verify rebuild migrate prune vacuum supervise".split(" "),
      ..."backup restore rekey move export import postgres".split(" "),
    ],
  ],
];

const ALONE = ["watch", "ui", "completion", "hook", "demo", "torture", "mcp"];
const EVERYWHERE = ["--json", "--store", "--namespace", "--goal", "--by", "--role", "--help"];

export function completion(shell: string): string {
  if (shell === "bash") return bash();
  if (shell === "zsh") return `autoload -U +X bashcompinit && bashcompinit\n${bash()}`;
  if (shell === "fish") return fish();
  throw new Misuse(`completion: there is no script for ${shell}`, "Use bash, zsh or fish.");
}

function verbs(): string[] {
  const single = COMMANDS.map(({ words }) => words).filter((words) => !words.includes(" "));
  return [...Object.keys(GROUPS), ...single, ...ALONE].sort();
}

function secondWords(group: string): string[] {
  return COMMANDS.filter(({ words }) => words.startsWith(`${group} `)).map(
    ({ words }) => words.split(" ")[1] ?? "",
  );
}

function optionsOf(words: string): string[] {
  const own = COMMANDS.find((each) => each.words === words)?.options ?? [];
  return [...own.map(([flags]) => flags.split(" ")[0] ?? ""), ...EVERYWHERE];
}

function bash(): string {
  const groups = Object.keys(GROUPS).map(
    (group) => `    ${group}) words="${secondWords(group).join(" ")}" ;;`,
  );
  const options = COMMANDS.map(({ words }) => `    "${words}") words="${optionsOf(words).join(" ")}" ;;`);
  return `# holdfast: add to your shell's start file: eval "$(holdfast completion bash)"
_holdfast() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  local first="\${COMP_WORDS[1]}" command="\${COMP_WORDS[1]}"
  case "$first" in ${Object.keys(GROUPS).join("|")}) command="$first \${COMP_WORDS[2]}" ;; esac
  if [ "$COMP_CWORD" -eq 1 ]; then words="${verbs().join(" ")}"
  elif [ "\${current#-}" != "$current" ]; then
    case "$command" in
${options.join("\n")}
    *) words="${EVERYWHERE.join(" ")}" ;;
    esac
  elif [ "$COMP_CWORD" -eq 2 ]; then
    case "$first" in
${groups.join("\n")}
    completion) words="bash zsh fish" ;;
    hook) words="claude codex cursor gemini" ;;
    mcp) words="proxy" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdfast holdfast
`;
}

function fish(): string {
  const lines = [
    `complete -c holdfast -n __fish_use_subcommand -f -a "${verbs().join(" ")}"`,
    ...Object.keys(GROUPS).map((group) => {
      const words = secondWords(group).join(" ");
      return `complete -c holdfast -n "__fish_seen_subcommand_from ${group}" -f -a "${words}"`;
    }),
    ...EVERYWHERE.map((flag) => `complete -c holdfast -l ${flag.slice(2)}`),
  ];
  const how = "# holdfast: holdfast completion fish > ~/.config/fish/completions/holdfast.fish";
  return `${[how, ...lines].join("\n")}\n`;
}
