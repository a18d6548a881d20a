/**
 * Large bytes live outside the log, once per content. Messages refer to them, and unreferenced ones can be
 * deleted.
 */

import { open } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();
const holdfast = await open(folder);
const picture = new TextEncoder().encode("a picture".repeat(1_000));

const artifact = await holdfast.putArtifact(picture);
const again = await holdfast.putArtifact(picture);
console.log(`stored once: ${artifact === again}`);

const session = await holdfast.session("album");
await session.append({
  role: "user",
  blocks: [{ kind: "file", artifact, mediaType: "image/png", name: "sea.png" }],
});
await holdfast.putArtifact(new TextEncoder().encode("nobody refers to this"));
console.log(`read back: ${(await holdfast.getArtifact(artifact)).length} bytes`);
console.log(`collected today: ${await holdfast.collectArtifacts()}`);
await holdfast.close();

const DAYS_MS = 2 * 24 * 3_600_000;
const later = await open(folder, { now: () => Date.now() + DAYS_MS });
console.log(`collected two days later: ${await later.collectArtifacts()}`);
console.log(`the picture is still there: ${(await later.getArtifact(artifact)).length === picture.length}`);
await later.close();
