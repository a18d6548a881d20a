/**
 * Versions of a session: numbered, labelled, loaded, compared, forked. A checkpoint is a position in the log,
 * so it costs almost nothing. A fork shares its past instead of copying it.
 */

import { type MessageInput, open, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const holdfast = await open(temporaryFolder());
const session = await holdfast.session("essay");

const said = (id: string, text: string): MessageInput => ({ id, role: "user", text });
await session.append([said("1", "An essay on tides, please."), said("2", "Short.")]);
const first = await session.checkpoint("brief");
await session.append(said("3", "Shorter."), { checkpoint: true });
console.log(`versions: ${session.versions.map(({ version, label }) => label ?? version).join(", ")}`);

// A whole transcript, as checkpointers of other systems save it. Only new messages are stored.
const saved = await session.save({
  messages: session.messages.slice(0, 2),
  spent: { usd: 0.02 },
  label: "trimmed",
});
const change = await session.diff(saved - 1, saved);
console.log(`save: version ${saved}, ${change.messages.removed.length} message removed`);

// When the context is full: a summary replaces the transcript, and older versions can still be loaded.
const summary = { id: "s", role: "user", createdAt: new Date().toISOString(), blocks: [] };
const before = await session.compact([summary], "context 80%");
console.log(
  `compacted: ${session.messages.length} message, before it ${(await session.at(before)).messages.length}`,
);

const publish = tool({
  name: "publish",
  description: "Publish the essay",
  effect: "mutate",
  input: z.object({}),
  execute: () => "published",
});
const fork = await session.fork("essay-b", { version: first });
const other = await holdfast.session(fork.id);
console.log(`fork: ${other.messages.length} messages of version ${fork.version}`);

// A fork starts no effects until they are allowed, because it might repeat those of its parent.
console.log(`publish from the fork: ${(await other.call({ tool: publish, args: {} })).status}`);
await other.allowEffects();
console.log(`publish once allowed:  ${(await other.call({ tool: publish, args: {} })).status}`);

await session.deleteVersion(first);
console.log(`after deleting ${first}: ${session.versions.map(({ version }) => version).join(", ")}`);

// All of this also works from outside, while another process holds the session.
const past = await holdfast.sessions.at("essay", 2);
const outside = await holdfast.sessions.diff("essay", 2, saved);
await holdfast.sessions.fork("essay", "essay-c", { version: 2 });
await holdfast.sessions.setEffects("essay-c", "live", { by: "Ada", why: "it may publish" });
console.log(
  `from outside: version 2 has ${past.messages.length} messages, then ${outside.messages.removed.length} removed`,
);
await holdfast.close();
