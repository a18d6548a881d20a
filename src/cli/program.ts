/** The whole command line, for commander. It loads nothing of the library before a command runs. */

import { Command as Parser } from "commander";
import { didYouMean } from "../operations/index.ts";
import { typedName } from "../wiring/index.ts";
import type { Command, Options } from "./command.ts";
import { COMMANDS, GROUPS, HEADINGS } from "./commands.ts";
import { Misuse } from "./failure.ts";
import { EXIT } from "./screen.ts";

const EVERYWHERE: readonly (readonly [flags: string, about: string])[] = [
  ["--json", "the answer as JSON"],
  ["--store <address>", "the store; also HOLDFAST_STORE"],
  ["--namespace <name>", "the namespace; also HOLDFAST_NAMESPACE"],
  ["--goal <goal>", "the goal; also HOLDFAST_GOAL"],
  ["--by <name>", "who acts; also HOLDFAST_BY"],
  ["--role <role>", "the role (default human); also HOLDFAST_ROLE"],
];

export async function runProgram(argv: readonly string[]): Promise<void> {
  const program = new Parser(typedName())
    .description("Durable state for AI agents: kill them anywhere, they resume where they were.")
    .option("--version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(false)
    .enablePositionalOptions()
    .action(() => {
      const hint = "Show the state of everything: holdfast status. All commands: holdfast --help";
      throw new Misuse("no command given", hint);
    });
  const groups = new Map<string, Parser>();
  for (const [word, about] of Object.entries(GROUPS)) groups.set(word, groupOf(program, word, about));
  for (const command of COMMANDS) addCommand(program, groups, command);
  groups.set("mcp", addMcp(program));
  addWatch(program);
  addUi(program);
  addSetup(program);
  const second = [...groups.values()].flatMap((group) => group.commands);
  for (const each of [program, ...program.commands, ...second]) behave(each);
  (program.commands as Parser[]).sort((a, b) => rankOf(a.name()) - rankOf(b.name()));
  program.hook("preAction", (_, acted) => refuseEmpty(acted));
  refuseUnknown(argv, program);
  await program.parseAsync([...argv], { from: "user" });
}

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
    throw new Misuse(`${word}: a second word is missing`, `Use one of: ${verbs.join(", ")}`);
  });
  return group;
}

/** Runs before commander, which would complain of the options of a misspelt command. */
function refuseUnknown([first, second]: readonly string[], program: Parser): void {
  if (first === undefined || first.startsWith("-")) return;
  const found = program.commands.find((each) => each.name() === first);
  if (!found) throw unknownCommand(first, program.commands);
  if (found.commands.length === 0 || second === undefined || second.startsWith("-")) return;
  if (found.commands.some((each) => each.name() === second)) return;
  throw unknownCommand(`${first} ${second}`, found.commands);
}

/** `--store "$DATABASE_URL"` without that variable would mean another store: the project's own. */
function refuseEmpty(acted: Parser): void {
  const { store } = acted.optsWithGlobals<Options>();
  if (store !== undefined && String(store).trim() === "") {
    throw new Misuse("--store is empty (expected an address)", "Is the variable set? Or leave --store out.");
  }
}

function addCommand(program: Parser, groups: ReadonlyMap<string, Parser>, command: Command): void {
  const [first = "", second] = command.words.split(" ");
  const parent = second === undefined ? program : groups.get(first);
  if (!parent) throw new Error(`${command.words} has no group`);
  const parser = parent.command(second ?? first).description(command.about);
  if (second === undefined) parser.helpGroup(headingOf(first));
  for (const [name, about] of command.args ?? []) parser.argument(name, about);
  for (const [flags, about, must] of command.options ?? []) {
    if (must === "required") parser.requiredOption(flags, about);
    else parser.option(flags, about);
  }
  if (command.answersFor) parser.option("--why <text>", "the reason; asked for on a terminal");
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
  const about = "show status again whenever something changes";
  const parser = program.command("watch").description(about).helpGroup(headingOf("watch"));
  for (const [flags, about] of EVERYWHERE) parser.option(flags, about);
  parser.action(async () => {
    const { watch } = await import("./watch.ts");
    await watch(parser.opts<Options>());
  });
}

function addSetup(program: Parser): void {
  const add = (word: string, about: string): Parser =>
    program.command(word).description(about).helpGroup(headingOf(word));
  add("completion", "print a completion script for your shell")
    .argument("<shell>", "bash, zsh or fish")
    .action(async (shell: string) => {
      const { completion } = await import("./commands.ts");
      process.stdout.write(completion(shell));
    });
  // Only for the help text: `main.ts` runs hooks before this file is loaded.
  add("hook", "what coding agents run at certain events; init wires it")
    .argument("<agent>", "claude, codex, cursor or gemini")
    .argument("<event>", "such as session-start, tool-start, touched or session-end");
  const demo = add("demo", "watch an agent be killed and lose nothing")
    .option("--json", "the answer as JSON")
    .option("--keep", "keep the folder with the store and the payment log")
    .option("--ui", "watch it on a page");
  demo.action(async () => {
    const { demo: play } = await import("./demo-command.ts");
    await play(demo.opts<Options>());
  });
  const torture = add("torture", "kill your own agent at every failpoint and compare its effects")
    .argument("[command...]", "after --: the agent; it must exit with 0 when its work is done")
    .option("--effects <command>", "prints the effects that happened, one per line")
    .option("--setup <command>", "resets the outside world and the store; runs before every kill")
    .option("--timeout <time>", "the longest time for one run (default 60s)")
    .option("--json", "the answer as JSON");
  torture.action(async () => {
    const { torture: kill } = await import("./torture-command.ts");
    await kill(torture.opts<Options>(), torture.processedArgs.flat() as string[]);
  });
}

function addUi(program: Parser): void {
  const parser = program
    .command("ui")
    .description("serve a page on this machine: see everything, answer what waits, travel through sessions")
    .helpGroup(headingOf("ui"))
    .option("--port <n>", "the port (default 4646, or any that is free)")
    .option("--open", "open it in the browser")
    .option("--read-only", "offer no answers");
  for (const [flags, about] of EVERYWHERE) parser.option(flags, about);
  parser.action(async () => {
    const { ui } = await import("./ui-command.ts");
    await ui(parser.opts<Options>());
  });
}

/** Silences commander: `reportFailure` prints its errors in our words. */
function behave(parser: Parser): void {
  parser
    .configureOutput({ writeErr: () => undefined })
    .showSuggestionAfterError(false)
    .exitOverride((error) => {
      if (error.exitCode === 0) process.exit(EXIT.done);
      throw toMisuse(parser, error.message);
    });
}

function toMisuse(parser: Parser, text: string): Misuse {
  const message = text.replace(/^error: /, "");
  const words = pathOf(parser);
  const unknown = /unknown option '(--?[^=']+)/.exec(message)?.[1];
  const known = parser.options.map(({ long }) => long ?? "");
  if (words === "" && EVERYWHERE.some(([flags]) => flags.split(" ")[0] === unknown)) {
    return new Misuse(`${unknown} must follow the command`, `For example: holdfast status ${unknown} …`);
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

/** `mcp` and `mcp proxy`: servers on stdin and stdout until the client closes its end, or over HTTP. */

const STORE = ["--store <address>", "the store; also HOLDFAST_STORE"] as const;
const NAMESPACE = ["--namespace <name>", "the namespace; also HOLDFAST_NAMESPACE"] as const;

function addMcp(program: Parser): Parser {
  const group = program
    .command("mcp")
    .description("run an MCP server on stdin and stdout: goals, tasks, decisions, open calls")
    .helpGroup(headingOf("mcp"))
    .option(...STORE)
    .option(...NAMESPACE)
    .option("--goal <goal>", "the goal; also HOLDFAST_GOAL")
    .option("--by <name>", "the agent's name (default: the client's); also HOLDFAST_BY")
    .option("--role <role>", "the role (default worker); also HOLDFAST_ROLE")
    .option("--http [address]", "serve Streamable HTTP: a port, or host:port with HOLDFAST_MCP_TOKEN")
    .action(async () => (await import("./mcp-command.ts")).serveAgents(group.opts<Options>()));
  const proxy = group
    .command("proxy")
    .description("put the ledger around every tool of another MCP server")
    .argument("[command...]", "after --: the command that starts that server")
    .option("--url <address>", "in place of a command: the server's address; token: HOLDFAST_PROXY_TOKEN")
    .option("--http [address]", "serve clients over HTTP: a port, or host:port with HOLDFAST_MCP_TOKEN")
    .option("--config <file>", "the effects of its tools (default: all mutate)")
    .option(
      "--session <name>",
      "the session that records the calls (default: derived from configuration and project)",
    )
    .option(...STORE)
    .option(...NAMESPACE)
    .option("--by <name>", "who acts; also HOLDFAST_BY")
    .action(async () => {
      const { proxyServer } = await import("./mcp-command.ts");
      await proxyServer(proxy.processedArgs.flat() as string[], proxy.opts<Options>());
    });
  return group;
}
