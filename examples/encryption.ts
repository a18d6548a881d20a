/**
 * A store that only its key reads. Every session has a key of its own beside the store, so erasing a session
 * also makes it unreadable in backups.
 */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { aesGcm, isHoldfastError, open } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const file = join(temporaryFolder(), "state.db");
// In production: process.env.HOLDFAST_KEY, made once by `openssl rand -base64 32`.
const encryption = aesGcm({ keys: { "2026-11": randomBytes(32) } });

const holdfast = await open(file, { encryption });
const session = await holdfast.session("visit", { title: "A visit to the doctor" });
await session.append({ role: "user", text: "My knee hurts." });
await holdfast.close();

console.log(`in the file: ${readFileSync(file, "latin1").includes("knee")}`);

const reader = await open(file, { encryption, readOnly: true });
const { sessions } = await reader.sessions.list();
console.log(`with the key: ${sessions[0]?.title}`);
await reader.close();

const stranger = await open(file, { readOnly: true });
const outcome = await stranger.sessions.get("visit").catch((error: unknown) => error);
console.log(`without it: ${isHoldfastError(outcome) ? outcome.code : "readable"}`);
await stranger.close();
