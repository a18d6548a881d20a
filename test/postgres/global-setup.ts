import { PostgresServer } from "./server.ts";

/** One server for all tests of a run. `HOLDFAST_TEST_POSTGRES` names an existing one instead. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env["HOLDFAST_TEST_POSTGRES"]) return undefined;
  const server = await PostgresServer.start();
  process.env["HOLDFAST_TEST_POSTGRES"] = server.url;
  return () => server.stop();
}
