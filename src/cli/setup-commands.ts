/** Commands that set up a project: the store, coding agents, schemas. */

import { join, relative } from "node:path";
import type { ResultOf } from "../operations/index.ts";
import { projectPlace } from "../project-place.ts";
import { agentsThere } from "../wiring/index.ts";
import { type ArgumentRow, type Command, command, list, type Options } from "./command.ts";
import { Misuse } from "./failure.ts";
import { commandToPaste, EXIT, linesOf, type Screen } from "./screen.ts";

const SIGNER: readonly ArgumentRow[] = [
  ["<name>", "their name"],
  ["<key>", 'a file such as ann.pub, or the key itself: "ssh-ed25519 AAAA…"'],
];

export const setupCommands: readonly Command[] = [
  command("init", "create the store and .planning/, wire coding agents", {
    options: [
      [
        "--agent <names>",
        "claude,codex,cursor,gemini,copilot,opencode, all or none (default: those that are there)",
      ],
      ["--command <command>", "how agents start holdfast (default: detected)"],
      ["--dry-run", "only show what would change"],
      ["--remove", "remove the wiring; the store stays"],
      ["--follow-links", "also change files outside the project that links lead to"],
      ["--check", "test the wiring: run every hook that init would write, start the MCP server"],
    ],
    input: (_, options) => {
      const modes = ["dryRun", "check"].filter((each) => options[each]);
      if (modes.length > 1 || (options["check"] && options["remove"])) {
        throw new Misuse("init: --check cannot be combined", "Use --check, --dry-run or --remove.");
      }
      const { agent: agents, command: start, dryRun, remove, check, followLinks } = options;
      return { agents, command: start, dryRun, remove, check, followLinks };
    },
    ask: askAgents,
    page: initPage,
    found: ({ ok }) => !ok,
  }),
  command("trust", "allow the project's configuration file on this machine, until it changes", {
    options: [
      ["--remove", "take it back"],
      ["--yes", "do not ask"],
    ],
    ignoresConfig: true,
    ask: askBeforeTrusting,
    adjust: ({ yes, ...fields }) => {
      if (yes || fields["remove"]) return fields;
      throw new Misuse(
        "trust lets code of this project run: without a terminal it needs --yes",
        "Read the file first, then run it with --yes.",
      );
    },
    page: ({ file, trusted, files }) =>
      linesOf([
        trusted ? `${file} is trusted on this machine until it changes` : `${file} is not trusted any more`,
        trusted && files.length > 1 ? `with ${files.slice(1).join(", ")}` : "",
      ]),
  }),
  command("new", "write a project to start from", {
    args: [
      ["<kind>", "chat, worker or coding"],
      ["[folder]", "the new folder (default: the kind)"],
    ],
    ignoresConfig: true,
    page: ({ folder, files, next }) =>
      linesOf([`wrote ${files.length} files to ${folder}`, ...next.map((each) => `  ${each}`)]),
  }),
  command("explain", "explain an error code, or all of them", {
    args: [["[code]", "such as STORE_REWOUND"]],
    ignoresConfig: true,
    page: ({ codes }) =>
      codes
        .map(({ code, cause, cure, retryable }) => {
          return linesOf([code, `  ${cause}`, `  ${cure}`, retryable ? "  A retry can help." : ""]);
        })
        .join("\n"),
  }),
  command("sign", "sign your acts with an ssh key: they count in other clones at once", {
    options: [
      ["--key <file>", "sign with this key from now on, and allow it on this machine"],
      ["--name <name>", "your name in signatures (default: your user name)"],
      ["--off", "sign no more"],
    ],
    page: signPage,
  }),
  command("signer add", "let the signed acts of a person count on this machine", {
    args: SIGNER,
    page: ({ name, key }) => `the acts that ${name} signs count here (${shortKey(key)})\n`,
  }),
  command("signer remove", "let the acts that a person signs wait for review again", {
    args: [["<name>", "their name"]],
    page: ({ name, removed }) => `removed ${removed} of ${name}\n`,
  }),
  command("approver add", "let a person's key answer for tools that require an approver", {
    args: SIGNER,
    page: ({ name, key }) => `${name} answers for tools that require an approver (${shortKey(key)})\n`,
  }),
  command("approver remove", "let a person's key no longer answer for such tools", {
    args: [["<name>", "their name"]],
    page: ({ name, removed }) => `removed ${removed} of ${name}\n`,
  }),
  command("approver list", "list the people whose keys answer for such tools", {
    page: ({ approvers }) => keyLines(approvers, "no approver: holdfast approver add <name> <key>"),
  }),
  command("signer list", "list the people whose signed acts count on this machine", {
    page: ({ signers }) => keyLines(signers, "no signed act counts here: holdfast signer add <name> <key>"),
  }),
  command("schema new", "write a project's own state and board: schemas, managers, migrations", {
    args: [["<name>", "the name of the files: billing"]],
    options: [
      ["--folder <path>", "target folder (default: here)"],
      ["--state <field...>", "fields of the state: customer, amount:number, tags:string[], tier:free|paid"],
      ["--build <field...>", "fields of build tasks"],
      ["--review <field...>", "fields of review tasks"],
    ],
    adjust: ({ state, build, review, ...rest }) => ({
      ...rest,
      state: fields(list(state)),
      build: fields(list(build)),
      review: fields(list(review)),
    }),
    page: ({ files, folder }) => `${files.map((each) => `wrote ${each}\n`).join("")}edit them in ${folder}\n`,
  }),
];

const shortKey = (key: string): string => `${key.split(" ")[0]} …${key.slice(-12)}`;

function keyLines(rows: readonly { name: string; key: string }[], none: string): string {
  return linesOf(rows.length === 0 ? [none] : rows.map(({ name, key }) => `${name}  ${shortKey(key)}`));
}

function signPage({ key, name, publicKey, signed }: ResultOf<"sign">, screen: Screen): string {
  if (key === null) return "your acts are not signed any more\n";
  const allow = commandToPaste(screen, `holdfast signer add ${name} "${publicKey}"`);
  return linesOf([
    `your acts are signed with ${key}, as ${name}`,
    signed > 0 ? `signed ${signed} earlier acts` : "",
    `others let them count with: ${allow}`,
  ]);
}

async function askBeforeTrusting(options: Options): Promise<Options> {
  if (options["yes"] || options["remove"]) return options;
  const { confirm } = await import("@clack/prompts");
  const message = "Every holdfast command and hook will run the configuration file. Have you read it?";
  if ((await confirm({ message, initialValue: false })) === true) return { ...options, yes: true };
  throw new Misuse("trust was cancelled", "Nothing was changed.", EXIT.interrupted);
}

/** Parses `amount:number`, `tier:free|paid`, or a bare name for text. */
function fields(typed: readonly string[] | undefined): Record<string, unknown> | undefined {
  if (typed === undefined) return undefined;
  return Object.fromEntries(
    typed.map((each) => {
      const [name = "", type = "string"] = each.split(":");
      return [name, type.includes("|") ? { enum: type.split("|") } : type];
    }),
  );
}

/** On a terminal, asks which agents to wire. Elsewhere the default is those that are there. */
async function askAgents(options: Options): Promise<Options> {
  const { agent, check, remove, store } = options;
  const isStoreNamed = store !== undefined || Boolean(process.env["HOLDFAST_STORE"]);
  if (agent !== undefined || check || remove || isStoreNamed) return options;
  const { isCancel, multiselect } = await import("@clack/prompts");
  const asked = await multiselect({
    message: "Which coding agents should be wired?",
    options: [
      { value: "claude", label: "Claude Code" },
      { value: "codex", label: "Codex" },
      { value: "cursor", label: "Cursor" },
      { value: "gemini", label: "Gemini CLI" },
      { value: "copilot", label: "Copilot CLI" },
      { value: "opencode", label: "opencode" },
    ],
    initialValues: [...agentsThere(projectPlace(process.cwd()).root)],
    required: false,
  });
  if (isCancel(asked)) throw new Misuse("init was cancelled", "Nothing was changed.", EXIT.interrupted);
  return { ...options, agent: asked.length === 0 ? "none" : asked.join(",") };
}

function initPage(result: ResultOf<"init">, screen: Screen): string {
  const { paint } = screen;
  if (result.mode === "checked") return checkLines(result, screen);
  if (result.mode === "planned") {
    const diffs = result.files.map(({ diff }) => diff ?? "").join("");
    const changes = diffs === "" ? "nothing would change\n" : diffs;
    return `${changes}${notes(result)}${paint.dim("nothing was changed")}\n`;
  }
  const lines = [
    result.address === null ? "" : `${result.created ? "created" : "exists:"} ${result.address}`,
    ...result.files
      .filter(({ change }) => change !== "same")
      .map(({ path, change }) => `${change} ${fromHere(result, path)}`),
  ];
  const next = result.created
    ? `create a goal: ${commandToPaste(screen, `${result.command} goal new <name> "what to achieve"`)}\n`
    : "";
  const proof =
    result.mode === "made" && result.agents.length > 0
      ? `test the wiring: ${commandToPaste(screen, result.checkCommand)}\n`
      : "";
  return `${linesOf(lines)}${notes(result)}${proof}${next}`;
}

/** A path relative to the working directory, so that it can be opened. Text after the path stays. */
function fromHere({ root }: ResultOf<"init">, path: string): string {
  return relative(process.cwd(), join(root, path));
}

function notes(result: ResultOf<"init">): string {
  const isOfFile = (note: string): boolean => result.files.some(({ path }) => note.startsWith(`${path}:`));
  return result.notes.map((each) => `- ${isOfFile(each) ? fromHere(result, each) : each}\n`).join("");
}

function checkLines(result: ResultOf<"init">, { paint }: Screen): string {
  const { proofs, untrusted, ok } = result;
  const lines = proofs.map(({ ok: isGood, what, detail, ms }) => {
    const mark = isGood ? paint.green("ok") : paint.red("NO");
    return `${mark}  ${fromHere(result, what)}: ${detail}${ms === null ? "" : paint.dim(` (${ms} ms)`)}\n`;
  });
  const waiting = untrusted.map(({ detail }) => `${paint.yellow("--")}  ${detail}\n`);
  const reached = untrusted.length === 0 ? "the agents reach Holdfast" : "the wiring is complete";
  return `${lines.join("")}${waiting.join("")}${ok ? reached : "the wiring is incomplete"}\n`;
}
