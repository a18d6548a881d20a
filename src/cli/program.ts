/** The whole command line, as commander reads it. Nothing of the library is loaded before a command runs. */

import { Command as Parser } from "commander";
import { didYouMean } from "../operations/index.ts";
import { typedName } from "../wiring/index.ts";
import type { Command, Options } from "./command.ts";
import { COMMANDS, GROUPS, HEADINGS } from "./commands.ts";
import { Misuse } from "./failure.ts";
import { EXIT } from "./screen.ts";

/** `mcp` and `mcp proxy`: servers on stdin and stdout, until the client closes its end. The SDK is loaded only here. */

const STORE = ["--store <address>", "where the store is; also HOLDFAST_STORE"] as const;
const HEADING = "Sessions:";

/** Adds the verbs; returns the group, so that it behaves like the others. */
function addMcp(program: Parser): Parser {
  const group = program
    .command("mcp")
    .description("a server for agents on stdin and stdout: goals, tasks, decisions, open calls")
    .helpGroup(HEADING)
    .option(...STORE)
    .option("--goal <goal>", "which goal; also HOLDFAST_GOAL")
    .option("--by <name>", "the agent's name; also HOLDFAST_BY, else after the client")
    .option("--role <role>", "in which role: worker unless set; also HOLDFAST_ROLE")
    .action(async () => serve(group.opts<Options>()));
  const proxy = group
    .command("proxy")
    .description("put the ledger around every tool of another MCP server")
    .argument("<command...>", "after --: how that server is started")
    .option("--config <file>", "what its tools do to the world; without it all of them count as mutating")
    .option(
      "--session <name>",
      "the session that keeps the calls; follows from configuration and project unless set",
    )
    .option(...STORE)
    .option("--by <name>", "who acts; also HOLDFAST_BY")
    .action(async () => putAround(proxy.processedArgs.flat() as string[], proxy.opts<Options>()));
  return group;
}

async function serve(options: Options): Promise<void> {
  const { serveMcp } = await import("../mcp/index.ts");
  const role = said(options, "role", "HOLDFAST_ROLE") ?? "worker";
  if (!AGENT_ROLES.includes(role as AgentRole)) {
    throw new Misuse(`${role} is no role for an agent`, `Say one of: ${AGENT_ROLES.join(", ")}`);
  }
  await serveMcp({
    store: said(options, "store", "HOLDFAST_STORE"),
    goal: said(options, "goal", "HOLDFAST_GOAL"),
    by: said(options, "by", "HOLDFAST_BY"),
    role: role as AgentRole,
  });
}

/** What people answer for is not to be had by saying that one is a person. */
const AGENT_ROLES = ["worker", "architect", "orchestrator", "verifier"] as const;
type AgentRole = (typeof AGENT_ROLES)[number];

async function putAround(command: readonly string[], options: Options): Promise<void> {
  const { runProxy } = await import("../mcp/index.ts");
  await runProxy({
    command,
    config: said(options, "config"),
    session: said(options, "session"),
    store: said(options, "store", "HOLDFAST_STORE"),
    by: said(options, "by", "HOLDFAST_BY") ?? "mcp-proxy",
  });
}

function said(options: Options, name: string, variable?: string): string | undefined {
  const value = options[name] ?? (variable === undefined ? undefined : process.env[variable]);
  return typeof value === "string" && value !== "" ? value : undefined;
}

const EVERYWHERE: readonly (readonly [flags: string, about: string])[] = [
  ["--json", "the answer as JSON"],
  ["--store <address>", "where the store is; also HOLDFAST_STORE"],
  ["--goal <goal>", "which goal; also HOLDFAST_GOAL"],
  ["--by <name>", "who acts; also HOLDFAST_BY"],
  ["--role <role>", "in which role: human unless set; also HOLDFAST_ROLE"],
];

export async function runProgram(argv: readonly string[]): Promise<void> {
  const program = new Parser(typedName())
    .description("Durable state for AI agents: kill them anywhere, they resume where they were.")
    .option("--version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(false)
    .enablePositionalOptions()
    .action(() => {
      throw new Misuse(
        "what should be done?",
        "See how things stand: holdfast status. All commands: holdfast --help",
      );
    });
  const groups = new Map<string, Parser>();
  for (const [word, about] of Object.entries(GROUPS)) groups.set(word, groupOf(program, word, about));
  for (const command of COMMANDS) addCommand(program, groups, command);
  groups.set("mcp", addMcp(program));
  addWatch(program);
  addSetup(program);
  for (const each of [
    program,
    ...program.commands,
    ...[...groups.values()].flatMap((group) => group.commands),
  ])
    behave(each);
  (program.commands as Parser[]).sort((a, b) => rankOf(a.name()) - rankOf(b.name()));
  refuseUnknown(argv, program);
  await program.parseAsync([...argv], { from: "user" });
}

/** In the order of the headings, and as they stand below them. */
function rankOf(word: string): number {
  return HEADINGS.flatMap(([, verbs]) => verbs).indexOf(word);
}

function headingOf(word: string): string {
  const heading = HEADINGS.find(([, verbs]) => verbs.includes(word))?.[0] ?? "Commands";
  return `${heading}:`;
}

function groupOf(program: Parser, word: string, about: string): Parser {
  const group = program.command(word).description(about).helpGroup(headingOf(word));
  group.action(() => {
    const verbs = group.commands.map((each) => each.name());
    throw new Misuse(`${word}: what about it?`, `Say one of: ${verbs.join(", ")}`);
  });
  return group;
}

/** Before commander looks: a slip in the verb is the verb's, whatever options follow it. */
function refuseUnknown([first, second]: readonly string[], program: Parser): void {
  if (first === undefined || first.startsWith("-")) return;
  const found = program.commands.find((each) => each.name() === first);
  if (!found) throw unknownCommand(first, program.commands);
  if (found.commands.length === 0 || second === undefined || second.startsWith("-")) return;
  if (found.commands.some((each) => each.name() === second)) return;
  throw unknownCommand(`${first} ${second}`, found.commands);
}

function addCommand(program: Parser, groups: ReadonlyMap<string, Parser>, command: Command): void {
  const [first = "", second] = command.words.split(" ");
  const parent = second === undefined ? program : groups.get(first);
  if (!parent) throw new Error(`${command.words} has no group`);
  const parser = parent.command(second ?? first).description(command.about);
  if (second === undefined) parser.helpGroup(headingOf(first));
  for (const [name, about] of command.args ?? []) parser.argument(name, about);
  for (const [flags, about, must] of command.options ?? []) {
    if (must) parser.requiredOption(flags, about);
    else parser.option(flags, about);
  }
  if (command.answersFor) parser.option("--why <text>", "why; asked for on a terminal");
  const own = new Set(parser.options.map(({ long }) => long));
  for (const [flags, about] of EVERYWHERE) if (!own.has(flags.split(" ")[0])) parser.option(flags, about);
  parser.action(async () => {
    const args = parser.processedArgs.flat() as string[];
    const options = parser.opts<Options>();
    if (command.loop && !options["once"]) return command.loop(args, options);
    const { runCommand } = await import("./run-command.ts");
    return runCommand(command, args, options);
  });
}

function addWatch(program: Parser): void {
  const parser = program
    .command("watch")
    .description("status, kept up to date")
    .helpGroup(headingOf("watch"));
  for (const [flags, about] of EVERYWHERE) parser.option(flags, about);
  parser.action(async () => {
    const { watch } = await import("./watch.ts");
    await watch(parser.opts<Options>());
  });
}

/** What needs no store, or no commander. */
function addSetup(program: Parser): void {
  const add = (word: string, about: string): Parser =>
    program.command(word).description(about).helpGroup(headingOf(word));
  add("completion", "a completion script for your shell")
    .argument("<shell>", "bash, zsh or fish")
    .action(async (shell: string) => {
      const { completion } = await import("./commands.ts");
      process.stdout.write(completion(shell));
    });
  // Only for help: `main.ts` runs hooks before any of this is loaded.
  add("hook", "what a coding agent runs at its turning points; init wires it")
    .argument("<agent>", "claude, codex, cursor or gemini")
    .argument("<event>", "session-start, touched, checkpoint, stop, stop-failure or session-end");
  const demo = add("demo", "watch an agent be killed and lose nothing")
    .option("--json", "the answer as JSON")
    .option("--keep", "leave the folder with the store and the world's log");
  demo.action(async () => {
    const { demo: play } = await import("./demo-command.ts");
    await play(demo.opts<Options>());
  });
  const torture = add("torture", "kill your own agent everywhere and compare what the world saw")
    .argument("[command...]", "after --: the agent; it has to end with 0 when its work is done")
    .option("--effects <command>", "prints what the world saw, one effect on a line")
    .option("--setup <command>", "makes a fresh world and a fresh store; run before every kill")
    .option("--timeout <time>", "the longest that one run may take: 60s unless set")
    .option("--json", "the answer as JSON");
  torture.action(async () => {
    const { torture: kill } = await import("./torture-command.ts");
    await kill(torture.opts<Options>(), torture.processedArgs.flat() as string[]);
  });
}

/** Errors are ours to print, in our words; commander only says what it met. */
function behave(parser: Parser): void {
  parser
    .configureOutput({ writeErr: () => undefined })
    .showSuggestionAfterError(false)
    .exitOverride((error) => {
      if (error.exitCode === 0) process.exit(EXIT.done);
      throw inOurWords(parser, error.message);
    });
}

function inOurWords(parser: Parser, said: string): Misuse {
  const message = said.replace(/^error: /, "");
  const words = pathOf(parser);
  const unknown = /unknown option '(--?[^=']+)/.exec(message)?.[1];
  const known = parser.options.map(({ long }) => long ?? "");
  if (words === "" && EVERYWHERE.some(([flags]) => flags.split(" ")[0] === unknown)) {
    return new Misuse(`${unknown} comes after the command`, `For example: holdfast status ${unknown} …`);
  }
  const hint = unknown === undefined ? "" : didYouMean(unknown, known);
  return new Misuse(
    `${words === "" ? "" : `${words}: `}${message}`,
    `${hint}See: holdfast ${words} --help`.replace("  ", " "),
  );
}

function pathOf(parser: Parser): string {
  const above = parser.parent && pathOf(parser.parent);
  return parser.parent ? `${above} ${parser.name()}`.trim() : "";
}

function unknownCommand(typed: string, known: readonly Parser[]): Misuse {
  const all = known.map(pathOf);
  return new Misuse(`there is no command ${typed}`, `${didYouMean(typed, all)}All commands: holdfast --help`);
}
