/**
 * Versions of a JSON file and the steps between them.
 *
 * A file says its version. One that is older is brought up step by step, in memory; one that is newer, or that says none
 * that is known, is refused, because guessing would lose what it means. A migration on disk keeps a backup beside the
 * file first, writes whole or not at all, and does nothing the second time: a crash between backup and write leaves the
 * old file and a backup of it, and running it again overwrites neither with anything else.
 */

import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";
import { AGENT_STATE_VERSION } from "./agent-state.ts";
import { parseJson, readBounded } from "./foreign-text.ts";
import type { JsonSchema } from "./json-schemas.ts";
import { checkOf, schemaRefused } from "./schema-check.ts";
import { readSeal, resealed } from "./seal.ts";
import { writeFileWhole } from "./whole-file.ts";
import { layoutJson } from "./written-text.ts";

type JsonObject = Record<string, unknown>;

/** `steps[1]` turns version 1 into version 2. A step gets its own copy and returns it, without the version. */
export interface Migrations {
  readonly current: number;
  readonly steps: Readonly<Record<number, (old: JsonObject) => JsonObject>>;
}

/** Version 2 calls `risks` what version 1 called `blockers`; its place among the members stays the same. */
const AGENT_STATE_MIGRATIONS: Migrations = {
  current: AGENT_STATE_VERSION,
  steps: {
    1: (old) =>
      Object.fromEntries(
        Object.entries(old).map(([name, value]) => [name === "blockers" ? "risks" : name, value]),
      ),
  },
};

/** The versions that were passed through, oldest first; empty when there was nothing to do. */
export interface Migrated {
  readonly value: JsonObject;
  readonly from: number;
  readonly steps: readonly number[];
}

export function migrate(value: JsonObject, { current, steps }: Migrations, what: string): Migrated {
  const from = value["schema_version"];
  if (!Number.isInteger(from) || (from as number) < 1) {
    throw refused(what, `schema_version is ${quoteValue(from)}, which is no version`, { from, current });
  }
  const taken: number[] = [];
  let migrated = value;
  for (let version = from as number; version < current; version++) {
    const step = steps[version];
    if (!step)
      throw refused(what, `version ${version} has no way to version ${version + 1}`, { from, current });
    const { schema_version: _old, ...rest } = structuredClone(migrated);
    migrated = { schema_version: version + 1, ...step(rest) };
    taken.push(version);
  }
  if ((from as number) > current) {
    throw refused(what, `it has version ${from as number}, this release knows versions up to ${current}`, {
      from,
      current,
    });
  }
  return { value: migrated, from: from as number, steps: taken };
}

export function migrateAgentState(value: JsonObject): JsonObject {
  return migrate(value, AGENT_STATE_MIGRATIONS, "agent_state.json").value;
}

export interface MigrationReport {
  readonly file: string;
  readonly from: number;
  readonly to: number;
  /** False: it was up to date, or this was a dry run. */
  readonly written: boolean;
  /** Where the old file is kept; null when nothing was written. */
  readonly backup: string | null;
  /** The file as it is, or would be. */
  readonly text: string;
}

const FILE_BYTES = 64 * 1024 * 1024;

/**
 * Brings a file on disk up to the current version. Run it at every start: it does nothing when there is nothing to do.
 * With `dryRun` it says what it would do and touches nothing.
 */
export async function migrateFile(
  file: string,
  options: { readonly migrations?: Migrations; readonly schema?: JsonSchema; readonly dryRun?: boolean } = {},
): Promise<MigrationReport> {
  const { migrations = AGENT_STATE_MIGRATIONS, schema, dryRun = false } = options;
  const old = await readBounded(file, FILE_BYTES);
  if (old === null) throw refused(file, "there is no such file", {});
  const { value, from, steps } = migrate(parseJson(old), migrations, file);
  const problem = schema && (await checkOf(schema))(value);
  if (problem) throw schemaRefused(file, problem);
  const to = migrations.current;
  if (steps.length === 0) return { file, from, to, written: false, backup: null, text: old };
  const plain = `${layoutJson(value)}\n`;
  // A file that a person changed keeps a digest that does not fit, so that the change is still noticed.
  const text = readSeal(old).isIntact ? resealed(plain) : plain;
  if (dryRun) return { file, from, to, written: false, backup: null, text };
  // The name says what is in it, so that a second run cannot put anything else in its place.
  const backup = `${file}.v${from}-${sha256(old).slice(0, 12)}.bak`;
  await writeFileWhole(backup, old);
  await writeFileWhole(file, text);
  return { file, from, to, written: true, backup, text };
}

function refused(what: string, why: string, data: Readonly<Record<string, unknown>>): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${what}: ${why}`, {
    hint: "Nothing was changed. Use the release of holdfast that wrote it, or a later one, or add the missing migration.",
    data: { reason: "SCHEMA_VERSION", what, ...data },
  });
}
