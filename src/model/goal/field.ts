/**
 * The shapes that fields of goal events share: bounded text, ids that the goal gives, paths below the root. Here and in
 * the files of schemas stands all that needs zod: whoever only reads a goal does not load it.
 */

import * as z from "zod";
import { isRelativePath } from "./naming.ts";
import { ROLES } from "./roles.ts";

/**
 * State is read at every resume, so it stays small: what is longer than this belongs into a file or an artifact,
 * and the goal keeps its path or hash.
 */
const LINE_LIMIT = 500;
export const TEXT_LIMIT = 20_000;
export const VALUE_LIMIT = 32_768;

export const line = z.string().min(1).max(LINE_LIMIT);
export const text = z.string().min(1).max(TEXT_LIMIT);
export const optionalText = text.nullable();
export const ordinal = z.int().min(1);
export const wallClock = z.int().min(0);

export const taskId = z.string().regex(/^T-\d{3,}$/, "must look like T-001");
export const decisionId = z.string().regex(/^D-\d{3,}$/, "must look like D-001");
export const blockerId = z.string().regex(/^B-\d{3,}$/, "must look like B-001");
export const questionId = z.string().regex(/^Q-\d{3,}$/, "must look like Q-001");
export const sessionName = z.string().min(1).max(128);
export const contentHash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");

export const relativePath = z
  .string()
  .refine(isRelativePath, "must be a path below the root, with / between names and without . or ..");

export const eventUid = z.string().regex(/^[0-9a-z]{12,40}$/, "must be the id of an event");

export const bySchema = z.strictObject({ name: z.string().min(1).max(128), role: z.enum(ROLES) });

/** On every event: who did it, and the id by which every copy of the goal knows it. */
export const stamp = { by: bySchema, uid: eventUid.optional() };
