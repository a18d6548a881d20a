import { afterAll, beforeEach } from "vitest";
import { runStoreSuite } from "../conformance/run.ts";
import { pooledPostgresForTest, postgresForTest } from "./subject.ts";

/**
 * Where stores have connections of their own: what is about closing them, and about several at once. A connection costs the
 * server more than most cases, so in all others those of one test after another share some. HOLDFAST_FULL=1: their own in all.
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
