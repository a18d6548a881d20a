/**
 * Versions of a JSON file and the steps between them.
 *
 * A newer file, or one without a `schema_version`, is refused: guessing would lose data. `migrateFile` writes
 * a backup first, and writes whole files:
 *
 * | crash | leaves | the next run |
 * |---|---|---|
 * | before the backup | the old file | starts anew |
 * | between backup and write | the old file and its backup | writes the same backup again, then the file |
 * | after the write | the new file and the backup | does nothing |
 */

import { stat, utimes } from "node:fs/promises";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";
import { layoutJson } from "./json-layout.ts";
import { checkOf, type JsonSchema, schemaRefused } from "./schema-check.ts";
import { parseJson, readBounded } from "./untrusted-text.ts";
import { writeFileWhole } from "./whole-file.ts";

type JsonObject = Record<string, unknown>;

/** `steps[1]` turns version 1 into version 2. A step gets its own copy, without the version. */
export interface Migrations {
  readonly current: number;
  readonly steps: Readonly<Record<number, (old: JsonObject) => JsonObject>>;
}

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
  const done: number[] = [];
  let migrated = value;
  for (let version = from as number; version < current; version++) {
    const step = steps[version];
    if (!step)
      throw refused(what, `version ${version} has no way to version ${version + 1}`, { from, current });
    const { schema_version: _old, ...rest } = structuredClone(migrated);
    migrated = { schema_version: version + 1, ...step(rest) };
    done.push(version);
  }
  if ((from as number) > current) {
    throw refused(what, `it has version ${from as number}, this release knows versions up to ${current}`, {
      from,
      current,
    });
  }
  return { value: migrated, from: from as number, steps: done };
}

/** The result of a migration, or with `dryRun` its preview. `backup` is the path of the file as it was. */
export interface MigrationReport {
  readonly file: string;
  readonly from: number;
  readonly to: number;
  readonly written: boolean;
  readonly backup: string | null;
  readonly text: string;
}

export interface MigrateFileOptions {
  readonly migrations: Migrations;
  readonly schema?: JsonSchema;
  readonly dryRun?: boolean;
  /** For files that carry a digest of themselves. */
  readonly finish?: (text: string, old: string) => string;
}

const FILE_BYTES = 64 * 1024 * 1024;

/** Does nothing when the file is up to date, so it can run at every start. */
export async function migrateFile(file: string, options: MigrateFileOptions): Promise<MigrationReport> {
  const { migrations, schema, dryRun = false, finish = (text) => text } = options;
  const old = await readBounded(file, FILE_BYTES);
  if (old === null) throw refused(file, "there is no such file", {});
  const { value, from, steps } = migrate(parseJson(old), migrations, file);
  const problem = schema && (await checkOf(schema))(value);
  if (problem) throw schemaRefused(file, problem);
  const to = migrations.current;
  if (steps.length === 0) return { file, from, to, written: false, backup: null, text: old };
  const text = finish(`${layoutJson(value)}\n`, old);
  if (dryRun) return { file, from, to, written: false, backup: null, text };
  // The name contains a hash of the content: a second run cannot put anything else in its place.
  const backup = `${file}.v${from}-${sha256(old).slice(0, 12)}.bak`;
  await writeFileWhole(backup, old);
  const { atime, mtime } = await stat(file);
  await writeFileWhole(file, text);
  // A migration is no person's edit, so the time of the last edit stays.
  await utimes(file, atime, mtime);
  return { file, from, to, written: true, backup, text };
}

function refused(what: string, why: string, data: Readonly<Record<string, unknown>>): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${what}: ${why}`, {
    hint: "Nothing was changed. Use the release of holdfast that wrote it, or add the missing migration.",
    data: { reason: "SCHEMA_VERSION", what, ...data },
  });
}
