/**
 * The project's configuration file: `holdfast.config.ts`, `.js`, `.mjs` or `.json` in its root. Every surface
 * reads it: the command line, the MCP server and proxy, hooks, and `open()`. For each field, an explicit
 * option wins over the environment, the environment over this file, and this file over the default.
 *
 * The file comes with the repository: a clone's file is hostile until a person has allowed it (`trust.ts`):
 *
 *     code                                  runs only if trusted
 *     JSON, a store outside the project     read only if trusted: it would get the project's data
 *     JSON, any other fields                always read, and checked
 *
 * A file that is not trusted is an error that names it. Ignoring it would open another store in silence.
 * `loadConfig()` and HOLDFAST_CONFIG trust the file by naming it: their caller could run any code anyway.
 */

import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Encryption } from "../encryption/index.ts";
import type { PayloadCodec } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { checkId } from "../model/names.ts";
import { checkOptions, type OptionRule } from "../model/options.ts";
import type { PriceTable } from "../model/session/index.ts";
import { parseDuration } from "../model/time.ts";
import { type ProjectPlace, projectPlace } from "../project-place.ts";
import { refuseUntrustedStore } from "../project-trust.ts";
import { type ConfigPlace, isTrusted, textOf } from "./trust.ts";

export { coveredFiles, distrust, trust } from "./trust.ts";

/**
 * The content of `holdfast.config.ts` (or `.js`, `.mjs`, `.json`). Every field is optional.
 *
 * @example
 * export default {
 *   store: "postgres://db.example.com/app",
 *   namespace: "acme",
 *   encryption: aesGcm({ keys: { "2026": process.env.HOLDFAST_KEY } }),
 *   retention: "30d",
 * } satisfies HoldfastConfig;
 */
export interface HoldfastConfig {
  /** The store's address. A path is relative to this file. Example: `store: "./data/state.db"`. */
  readonly store?: string;
  /** The namespace that everything acts in. Default `default`. Example: `namespace: "acme"`. */
  readonly namespace?: string;
  /** Encrypts the whole store: `encryption: aesGcm({ keys })`. JSON cannot hold it. */
  readonly encryption?: Encryption;
  /** Redaction: the first codec writes, all of them read. JSON cannot hold one. */
  readonly codecs?: readonly PayloadCodec[];
  /** `supervise` and `prune` remove sessions that ended longer ago. Example: `retention: "30d"`. */
  readonly retention?: string | number;
  /** For adapters: `fromAnthropic(client, "claude-sonnet-5-5", { prices: config.prices })`. */
  readonly prices?: PriceTable;
  /**
   * More commands of coding agents whose intent and outcome hooks record, beside `git push` and the like. A
   * `*` stands for the rest of a word. Example: `watch: ["ship.sh", "mcp__stripe__*"]`.
   */
  readonly watch?: readonly string[];
}

const FIELDS = {
  store: "text",
  namespace: "text",
  encryption: "object",
  codecs: "list",
  retention: null,
  prices: "object",
  watch: "list",
} as const satisfies Record<keyof HoldfastConfig, OptionRule>;

/**
 * Reads the project's configuration file, or the named one, for `open`. It runs the file if it is code; no
 * record of trust is needed. Without a file the result is empty.
 *
 * @example
 * const holdfast = await open(await loadConfig());
 */
export async function loadConfig(file?: string): Promise<HoldfastConfig> {
  const found = file === undefined ? projectPlace(process.cwd()).configFile : resolve(file);
  return found === null ? {} : readFile(found);
}

/** Throws for options of `open` in the place of a configuration, such as `open({ readOnly: true })`. */
export function checkConfig(passed: unknown): void {
  try {
    checkOptions("open", passed, FIELDS);
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    throw invalid(
      `${error.message} in a configuration`,
      `${error.hint} Options of open() come second: open(undefined, { readOnly: true }).`,
    );
  }
}

/** The configuration for a surface, which did not choose the project. Empty if there is no file. */
export async function readConfig(
  place: ProjectPlace,
  surface: "command" | "open()" = "command",
): Promise<HoldfastConfig> {
  const { configFile: file, isConfigNamed, home } = place;
  if (file === null) return {};
  if (isConfigNamed) return readFile(file);
  if (!isCode(file) && isHarmless(file)) return withOwnStore(await readFile(file), place);
  // A program cannot know that a later run finds a record, so `open()` runs no code that it finds.
  if (surface === "open()" && isCode(file)) throw mustBePassed(file);
  if (!isTrusted({ file, home })) throw untrusted({ file, home });
  return withOwnStore(await readFile(file), place);
}

/** A repository that names a store may bring it as well. */
function withOwnStore(config: HoldfastConfig, place: ProjectPlace): HoldfastConfig {
  const { store } = config;
  if (store !== undefined && !isAddress(store)) refuseUntrustedStore(place, store, process.cwd());
  return config;
}

function isCode(file: string): boolean {
  return !file.endsWith(".json");
}

/** True if the file leaks no data: its owner is this user or root, and its store is in the project. */
function isHarmless(file: string): boolean {
  const { uid } = statSync(file);
  if (uid !== 0 && uid !== process.getuid?.()) return false;
  const { store } = Object(parseJson(file)) as { store?: unknown };
  if (typeof store !== "string" || store.trim() === "") return true;
  if (isAddress(store)) return false;
  // A link in the repository may lead out of it, so the folder that exists decides.
  let folder = absolute(store, file);
  while (!existsSync(folder)) folder = dirname(folder);
  const path = relative(realpathSync(dirname(file)), realpathSync(folder));
  return !path.startsWith("..") && !isAbsolute(path);
}

async function readFile(file: string): Promise<HoldfastConfig> {
  const value = isCode(file) ? await importDefault(file, EXAMPLE) : parseJson(file);
  try {
    return checked(value, file);
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    throw new HoldfastError("INPUT_INVALID", `${file}: ${error.message}`, {
      hint: error.hint,
      cause: error,
      data: { file },
    });
  }
}

function checked(value: unknown, file: string): HoldfastConfig {
  checkOptions(basename(file), value, FIELDS);
  const { store, namespace, encryption, codecs, retention, prices, watch } = value as HoldfastConfig;
  if (namespace !== undefined) checkId(namespace, "namespace");
  if (encryption !== undefined) checkEncryption(encryption);
  codecs?.forEach(checkCodec);
  if (prices !== undefined) checkPrices(prices);
  watch?.forEach(checkRule);
  return {
    ...(store !== undefined && { store: absolute(store, file) }),
    ...(namespace !== undefined && { namespace }),
    ...(encryption !== undefined && { encryption }),
    ...(codecs !== undefined && { codecs }),
    ...(retention !== undefined && { retention: milliseconds(retention) }),
    ...(prices !== undefined && { prices }),
    ...(watch !== undefined && { watch }),
  };
}

/** A slash at the end makes a store of files, so it stays. */
function absolute(store: string, file: string): string {
  if (store.trim() === "") throw invalid("store is empty", "Name a path or postgres://…, or leave it out.");
  if (isAddress(store)) return store;
  const path = store.replace(/^file:(\/\/)?/, "");
  return resolve(dirname(file), path) + (path.endsWith("/") ? "/" : "");
}

/** True for `postgres://…` and `memory:`; false for a path and a `file:` address. */
function isAddress(store: string): boolean {
  return /^([a-z][a-z0-9+.-]+)?:/i.test(store) && !store.startsWith("file:");
}

function checkEncryption({ protect }: Partial<Encryption>): void {
  if (typeof protect === "function") return;
  throw invalid(
    "encryption: not an encryption",
    "Write: encryption: aesGcm({ keys }). It needs holdfast.config.ts or .mjs, not .json.",
  );
}

function checkCodec(codec: unknown): void {
  const { name, encode, decode } = (codec ?? {}) as Partial<PayloadCodec>;
  if (typeof name === "string" && typeof encode === "function" && typeof decode === "function") return;
  throw invalid(
    "codecs: an entry is not a codec",
    "A codec has a name and the functions encode and decode: it needs holdfast.config.ts or .mjs, not .json.",
  );
}

function checkRule(rule: unknown): void {
  if (typeof rule === "string" && rule.trim() !== "" && rule.length <= 200) return;
  throw invalid("watch: an entry is not a command", 'Name the first words of one: watch: ["ship.sh"].');
}

function milliseconds(retention: unknown): number {
  const ms = typeof retention === "string" ? parseDuration(retention) : retention;
  if (typeof ms === "number" && Number.isFinite(ms) && ms > 0) return ms;
  throw invalid("retention is not a duration", 'For example: "30d", "12h", or milliseconds.');
}

function checkPrices(prices: PriceTable): void {
  for (const [model, price] of Object.entries(prices)) {
    const { input, output, cacheRead = 0, cacheWrite = 0 } = price ?? {};
    const isPrice = [input, output, cacheRead, cacheWrite].every(
      (each) => Number.isFinite(each) && each >= 0,
    );
    if (!isPrice) {
      const hint =
        'For example: { "gpt-5": { "input": 1.25, "output": 10 } }, in US dollars per million tokens.';
      throw invalid(`prices: ${JSON.stringify(model)} has no input and output price`, hint);
    }
  }
}

function parseJson(file: string): unknown {
  try {
    return JSON.parse(textOf(file));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new HoldfastError("INPUT_INVALID", `${file}: not JSON (${cause.message})`, {
      hint: "Correct it, or remove the file.",
      cause,
      data: { file },
    });
  }
}

const EXAMPLE = 'Write: export default { store: "./state.db" };';

/** The default export of a file that the user named. `hint` says what to write if there is none. */
export async function importDefault(file: string, hint: string): Promise<unknown> {
  if (file.endsWith(".ts") && !runsTypeScript()) throw needsNewerNode(file);
  try {
    const module = (await import(pathToFileURL(file).href)) as { default?: unknown };
    if (module.default !== undefined) return module.default;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new HoldfastError("INPUT_INVALID", `${file}: cannot be run (${why})`, {
      // The file may have called us wrongly, as with a key that is not set.
      hint: isHoldfastError(cause) ? cause.hint : "Correct it. Everything that it imports must be installed.",
      cause,
      data: { file },
    });
  }
  throw new HoldfastError("INPUT_INVALID", `${file}: no default export`, {
    hint,
    data: { file },
  });
}

/** Node 22.18 and later, Bun and Deno run TypeScript as it is. */
function runsTypeScript(): boolean {
  const { features, versions } = process as {
    features: { typescript?: unknown };
    versions: Readonly<Record<string, string | undefined>>;
  };
  return Boolean(features.typescript || versions["bun"] || versions["deno"]);
}

function needsNewerNode(file: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file}: Node ${process.versions.node} runs no TypeScript`, {
    hint: "Use Node 22.18 or later, or rename it to .mjs (a configuration also to .json) without its types.",
    data: { file },
  });
}

function untrusted({ file }: ConfigPlace): HoldfastError {
  const what = isCode(file) ? "it is code" : "its store is outside the project, or its owner is another user";
  return new HoldfastError("CONFIG_UNTRUSTED", `${file}: not trusted on this machine (${what})`, {
    hint: "Nothing was read. Look at the file; if it is yours, run: holdfast trust",
    data: { file },
  });
}

function mustBePassed(file: string): HoldfastError {
  return new HoldfastError("CONFIG_UNTRUSTED", `${file}: open() runs no code that it finds`, {
    hint: "Pass it: open(await loadConfig()). To ignore the file: open({}).",
    data: { file },
  });
}

function invalid(message: string, hint: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", message, { hint });
}
