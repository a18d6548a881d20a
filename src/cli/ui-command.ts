/** `ui`: serves the page on the loopback address until it is stopped. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { agentAbove } from "../agent-sessions/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { startUi, type Ui } from "../web/index.ts";
import { typedName } from "../wiring/index.ts";
import { type Options, wholeNumber } from "./command.ts";
import { reportWarning } from "./failure.ts";
import { contextOf } from "./run-command.ts";
import { EXIT, envelope, openScreen, UI_PORT } from "./screen.ts";

export async function ui(options: Options): Promise<void> {
  const context = await contextOf(options, { via: "web" });
  try {
    const { paint, store = "" } = await openScreen(options);
    const agent = agentAbove();
    const typedReadOnly = options["readOnly"] === true ? "it was started with --read-only" : null;
    const readOnly = agent === null ? typedReadOnly : `${agent} started it, and only people may answer`;
    const warn = (error: unknown): void => reportWarning(error, false);
    const wanted = wholeNumber("--port", options["port"]);
    const typed = { program: typedName(), store };
    const start = (port: number): Promise<Ui> => startUi({ context, port, readOnly, warn, typed });
    const server = await start(wanted ?? UI_PORT).catch((error: unknown) => {
      if (wanted !== undefined || !isHoldfastError(error, "STREAM_BUSY")) throw error;
      return start(0);
    });
    const { journal } = await context.holdfast();
    const who = readOnly === null ? `you answer as ${context.by.name}` : `read only: ${readOnly}`;
    process.stdout.write(
      options["json"]
        ? envelope("ui", { url: server.url, port: server.port, readOnly })
        : `${paint.bold(server.url)}\n${journal.store.address}, ${who}; Ctrl-C ends it\n`,
    );
    const closeFile = options["open"] === true ? openBrowser(server.url) : () => undefined;
    await stopped();
    closeFile();
    await server.close();
  } finally {
    await context.close();
  }
  process.exitCode = EXIT.interrupted;
}

/** Resolves when a person ends the program. */
export function stopped(): Promise<void> {
  return new Promise((resolve) => {
    process.once("SIGINT", () => resolve());
    process.once("SIGTERM", () => resolve());
  });
}

const OPENERS: Readonly<Record<string, string>> = { darwin: "open", win32: "explorer" };

/**
 * Opens the page through a private file that leads to it: every user of the machine can read the arguments of
 * a process, and the address has the token.
 */
function openBrowser(url: string): () => void {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-ui-"));
  const file = join(folder, "open.html");
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0;url=${url}">\n`, { mode: 0o600 });
  const child = spawn(OPENERS[process.platform] ?? "xdg-open", [file], { stdio: "ignore", detached: true });
  child.on("error", () => process.stderr.write("no browser was found: open the address above yourself\n"));
  child.unref();
  return () => rmSync(folder, { recursive: true, force: true });
}
