import { afterAll, beforeEach } from "vitest";
import { runStoreSuite } from "../conformance/run.ts";
import { pooledPostgresForTest, postgresForTest } from "./subject.ts";

/**
 * Topics whose stores have connections of their own: those about closing them and about several at once. A
 * connection costs the server more than most cases, so the stores of all other topics share some.
 * HOLDFAST_FULL=1 gives every store its own.
 */
const APART = ["closing", "reopening", "watch", "conflict"];

const [apart, sharing] = [postgresForTest(), pooledPostgresForTest()];
let subject = apart;
beforeEach(({ task }) => {
  const isApart = process.env["HOLDFAST_FULL"] || APART.includes(task.suite?.name ?? "");
  subject = isApart ? apart : sharing;
});
runStoreSuite({ name: apart.name, open: () => subject.open() });
afterAll(async () => {
  await apart.dispose();
  await sharing.dispose();
});
