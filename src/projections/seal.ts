/**
 * The seal of a rendered file: its goal, its revision, and a digest of everything else in it.
 *
 * The digest decides who wrote a file last. If it fits, some rendering did; if not, a person, git or another
 * tool. Line endings and a byte order mark do not count, since git and editors change them.
 */

import { sha256 } from "../model/digest.ts";
import { jsonString } from "../state-files/index.ts";
import { yamlScalar } from "./written-text.ts";

export interface Seal {
  readonly goal: string;
  readonly revision: number;
  readonly digest: string;
}

export interface SealedText extends Seal {
  readonly text: string;
}

export function sealMarkdown(goal: string, revision: number, rest: string): SealedText {
  const head = `---\ngoal: ${yamlScalar(goal)}\nrevision: ${revision}\n`;
  return sealed(goal, revision, head, (digest) => `digest: sha256:${digest}\n`, rest);
}

export function sealJson(goal: string, version: number, revision: number, rest: string): SealedText {
  const run = `  "run_id": ${jsonString(goal)},\n  "revision": ${revision},\n`;
  const head = `{\n  "schema_version": ${version},\n${run}`;
  return sealed(goal, revision, head, jsonLine, rest);
}

const jsonLine = (digest: string): string => `  "digest": "sha256:${digest}",\n`;

function sealed(
  goal: string,
  revision: number,
  head: string,
  line: (digest: string) => string,
  rest: string,
): SealedText {
  const digest = sha256(head + rest);
  return { goal, revision, digest, text: head + line(digest) + rest };
}

/** A seal begins within this many characters; below it is content. */
const HEAD_CHARACTERS = 2_000;
const DIGEST_LINE = /^(?:digest: sha256:([0-9a-f]{64})|\s*"digest": "sha256:([0-9a-f]{64})",)\n/m;
const REVISION_LINE = /^(?:revision: |\s*"revision": )(\d{1,15}),?$/m;
/** The digest does not cover its own place, and a moved line is an edit, too. */
const BEFORE_DIGEST = /(?:^revision: |^\s*"revision": )\d{1,15},?\n$/m;
const GOAL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const GOAL_LINE = /^(?:goal: |\s*"run_id": )"?([A-Za-z0-9][A-Za-z0-9._-]{0,127})"?,?$/m;

export interface ReadSeal {
  readonly isIntact: boolean;
  readonly goal: string | null;
  readonly revision: number | null;
  readonly digest: string | null;
}

export function readSeal(raw: string): ReadSeal {
  const text = normalText(raw);
  const head = text.slice(0, HEAD_CHARACTERS);
  const found = DIGEST_LINE.exec(head);
  const digest = found?.[1] ?? found?.[2] ?? null;
  const revision = REVISION_LINE.exec(head)?.[1];
  const goal = GOAL_LINE.exec(head)?.[1] ?? null;
  const place = { goal, revision: revision === undefined ? null : Number(revision), digest };
  if ((goal === null || revision === undefined) && text.startsWith("{")) return unformattedSeal(text);
  if (!found || digest === null) return { ...place, isIntact: false };
  const before = text.slice(0, found.index);
  const rest = before + text.slice(found.index + found[0].length);
  // Nor does it cover the space in its own line.
  const isAsWritten = found[1] !== undefined || found[0] === jsonLine(digest);
  return { ...place, isIntact: isAsWritten && BEFORE_DIGEST.test(before) && sha256(rest) === digest };
}

/**
 * A person may save JSON in one line or reorder its members. Such a file is an edit, but its seal still
 * counts.
 */
function unformattedSeal(text: string): ReadSeal {
  const missing = { isIntact: false, goal: null, revision: null, digest: null };
  try {
    const { run_id: goal, revision, digest } = JSON.parse(text) as Readonly<Record<string, unknown>>;
    if (typeof goal !== "string" || !GOAL.test(goal)) return missing;
    if (typeof revision !== "number" || !Number.isSafeInteger(revision) || revision < 0) return missing;
    const sum = typeof digest === "string" ? /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1] : undefined;
    return { isIntact: false, goal, revision, digest: sum ?? null };
  } catch (error) {
    if (error instanceof SyntaxError) return missing;
    throw error;
  }
}

const SEALS = /^(?:digest: sha256:|[ \t]*"digest": "sha256:)[0-9a-f]{64}/gm;

/** Two renderings in one file: git kept the lines of both sides of a merge. */
export function hasTwoSeals(raw: string): boolean {
  return new Set(normalText(raw).match(SEALS) ?? []).size > 1;
}

export function resealed(text: string): string {
  const found = DIGEST_LINE.exec(text.slice(0, HEAD_CHARACTERS));
  const old = found?.[1] ?? found?.[2];
  if (!found || old === undefined) return text;
  const rest = text.slice(found.index + found[0].length);
  const head = text.slice(0, found.index);
  return head + found[0].replace(old, sha256(head + rest)) + rest;
}

export function normalText(raw: string): string {
  const text = raw.startsWith("\uFEFF") ? raw.slice(1) : raw;
  return text.includes("\r\n") ? text.replaceAll("\r\n", "\n") : text;
}

/** The identity of an edited text: its content, and the seal of the rendering that it began with. */
export function editKeys(raw: string): string[] {
  const { digest } = readSeal(raw);
  return [`text ${sha256(normalText(raw))}`, ...(digest === null ? [] : [`seal ${digest}`])];
}
