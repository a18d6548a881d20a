/**
 * Trial 3: inspect the checkpoints of an ended session. How many are there, do they show the session's
 * evolution, and does it still resume when a middle one is deleted? Beyond the trial: a byte is changed in
 * the database behind the library's back, and the library must notice.
 */

import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { isHoldfastError, type Model, open } from "holdfast";
import { temporaryFolder } from "./temporary-folder.ts";

const store = join(temporaryFolder(), "store.db");
const model: Model = async ({ messages }) => ({
  message: { text: `answer ${messages.filter((message) => message.role === "user").length}` },
  usage: { usd: 0.01 },
});

let holdfast = await open(store);
let session = await holdfast.session("audited");
for (let turn = 1; turn <= 5; turn++) await session.run({ model, prompt: `question ${turn}` });
await session.complete();

console.log(`versions: ${session.versions.map(({ version }) => version).join(", ")}`);
for (const { version } of session.versions) {
  const { messages, budget } = await session.at(version);
  console.log(`  version ${version}: ${messages.length} messages, $${budget.spent.usd} spent`);
}
const change = await session.diff(2, 4);
console.log(`from 2 to 4: ${change.messages.added.length} messages added, ${change.messages.same} the same`);

await session.deleteVersion(3);
await holdfast.close();

holdfast = await open(store);
session = await holdfast.session("audited");
console.log(
  `after deleting 3: ${session.versions.map(({ version }) => version).join(", ")}, ${session.messages.length} messages`,
);
try {
  await session.at(3);
} catch (error) {
  if (!isHoldfastError(error, "VERSION_NOT_FOUND")) throw error;
  console.log(`  ${error.message}. ${error.hint}`);
}
const result = await session.run({ model, prompt: "question 6" });
console.log(`resumed all the same: ${result.text}, version ${result.version}`);
console.log(`problems found: ${(await holdfast.check()).length}`);
await holdfast.close();

// Another program edits the database: "answer 2" becomes "answer 7".
const database = new DatabaseSync(store);
database.exec("UPDATE writes SET payload = replace(payload, 'answer 2', 'answer 7')");
database.close();

holdfast = await open(store);
for (const { what, where } of await holdfast.check()) console.log(`noticed in ${where}: ${what}`);
await holdfast.close();
