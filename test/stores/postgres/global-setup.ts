import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quickFolder } from "../../quick-folder.ts";
import { EMPTY, PostgresServer } from "./server.ts";

/**
 * One server for all tests of a run. `HOLDFAST_TEST_POSTGRES` names an existing one instead. The short form
 * of the tests needs none.
 */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env["HOLDFAST_TEST_POSTGRES"] || process.env["HOLDFAST_SHORT"]) return undefined;
  const server = await PostgresServer.start({}, { log: placeOfLog(), keepsEmpty: true });
  process.env["HOLDFAST_TEST_POSTGRES"] = server.url;
  process.env[EMPTY] = server.empty;
  return () => server.stop();
}

/**
 * The server waits for its log at every commit, which takes most of the time of most tests. No test cuts
 * the power of this server, so its log may be in memory.
 */
function placeOfLog(): string | undefined {
  const folder = quickFolder();
  return folder === tmpdir() ? undefined : join(folder, `holdfast-postgres-${randomUUID()}`);
}
