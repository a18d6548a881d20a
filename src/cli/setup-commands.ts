/** Commands that set a project up: the store, the coding agents, schemas of its own. */

import { join, relative } from "node:path";
import type { ResultOf } from "../operations/index.ts";
import { type Command, command, list, type Options } from "./command.ts";
import { Misuse } from "./failure.ts";
import { commandToPaste, type Screen } from "./screen.ts";

export const setupCommands: readonly Command[] = [
  command({
    words: "init",
    operation: "init",
    about: "make the store and .planning/, wire the coding agents",
    options: [
      ["--agent <names>", "claude,codex,cursor,gemini; all unless set, or none"],
      ["--command <command>", "how the agents start holdfast; found out unless set"],
      ["--dry-run", "only show what would change"],
      ["--remove", "take the wiring out again; the store stays"],
      ["--check", "prove the wiring: run every hook, start the MCP server"],
    ],
    input: (_, options) => {
      const modes = ["dryRun", "check"].filter((each) => options[each]);
      if (modes.length > 1 || (options["check"] && options["remove"])) {
        throw new Misuse("init: --check stands alone", "Say --check, or --dry-run, or --remove.");
      }
      const { agent: agents, command: said, dryRun, remove, check } = options;
      return { agents, command: said, dryRun, remove, check };
    },
    ask: askAgents,
    page: initPage,
    found: ({ ok }) => !ok,
  }),
  command({
    words: "schema new",
    operation: "schema new",
    about: "write a project's own state and board: schemas, managers, migrations",
    args: [["<name>", "what the files are called after: billing"]],
    options: [
      ["--folder <path>", "where to: here unless set"],
      ["--state <field...>", "members of the state: customer, amount:number, tags:string[], tier:free|paid"],
      ["--build <field...>", "members of build tasks"],
      ["--review <field...>", "members of review tasks"],
    ],
    input: ([name], { folder, state, build, review }) => ({
      name,
      folder,
      state: fields(list(state)),
      build: fields(list(build)),
      review: fields(list(review)),
    }),
    page: ({ files, folder }) =>
      `${files.map((each) => `wrote ${each}\n`).join("")}they are yours now, in ${folder}\n`,
  }),
];

/** `amount:number`, `tier:free|paid`, or a bare name for text. */
function fields(typed: readonly string[] | undefined): Record<string, unknown> | undefined {
  if (typed === undefined) return undefined;
  return Object.fromEntries(
    typed.map((each) => {
      const [name = "", type = "string"] = each.split(":");
      return [name, type.includes("|") ? { enum: type.split("|") } : type];
    }),
  );
}

/** On a terminal, where nothing was said: which agents. Everywhere else all of them. */
async function askAgents(options: Options): Promise<Options> {
  const { agent, check, remove, store } = options;
  const isStoreSaid = store !== undefined || Boolean(process.env["HOLDFAST_STORE"]);
  if (agent !== undefined || check || remove || isStoreSaid) return options;
  const { isCancel, multiselect } = await import("@clack/prompts");
  const asked = await multiselect({
    message: "Which coding agents are to know about it?",
    options: [
      { value: "claude", label: "Claude Code" },
      { value: "codex", label: "Codex" },
      { value: "cursor", label: "Cursor" },
      { value: "gemini", label: "Gemini CLI" },
    ],
    initialValues: ["claude", "codex", "cursor", "gemini"],
    required: false,
  });
  if (isCancel(asked)) throw new Misuse("init was not done", "Nothing was changed.", 130);
  return { ...options, agent: asked.length === 0 ? "none" : asked.join(",") };
}

function initPage(result: ResultOf<"init">, screen: Screen): string {
  const { paint } = screen;
  if (result.mode === "checked") return checkLines(result, screen);
  if (result.mode === "planned") {
    const diffs = result.files.map(({ diff }) => diff ?? "").join("");
    return `${diffs === "" ? "nothing would change\n" : diffs}${notes(result)}${paint.dim("nothing was changed")}\n`;
  }
  const lines = [
    result.address === null ? "" : `${result.created ? "made" : "there already:"} ${result.address}`,
    ...result.files
      .filter(({ change }) => change !== "same")
      .map(({ path, change }) => `${change} ${fromHere(result, path)}`),
  ].filter(Boolean);
  const next = result.created
    ? `begin a goal: ${commandToPaste(screen, `${result.command} goal new <name> "what is to be reached"`)}\n`
    : "";
  const proof =
    result.mode === "made" && result.agents.length > 0
      ? `prove the wiring: ${commandToPaste(screen, `${result.command} init --check`)}\n`
      : "";
  return `${lines.map((line) => `${line}\n`).join("")}${notes(result)}${proof}${next}`;
}

/** A file of the project as whoever reads it can open it; what follows the path stays. */
function fromHere({ root }: ResultOf<"init">, path: string): string {
  return relative(process.cwd(), join(root, path));
}

function notes(result: ResultOf<"init">): string {
  const isOfFile = (note: string): boolean => result.files.some(({ path }) => note.startsWith(`${path}:`));
  return result.notes.map((each) => `- ${isOfFile(each) ? fromHere(result, each) : each}\n`).join("");
}

function checkLines(result: ResultOf<"init">, { paint }: Screen): string {
  const { proofs, ok } = result;
  const lines = proofs.map(({ ok: isGood, what, detail, ms }) => {
    const mark = isGood ? paint.green("ok") : paint.red("NO");
    return `${mark}  ${fromHere(result, what)}: ${detail}${ms === null ? "" : paint.dim(` (${ms} ms)`)}\n`;
  });
  return `${lines.join("")}${ok ? "the agents reach Holdfast" : "something is not wired as it should be"}\n`;
}
