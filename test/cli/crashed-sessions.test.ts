// A killed agent is shown as crashed, although its lease is valid for another half minute.

import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
const look = (...words: string[]) => runInside(line.project, words);

beforeAll(async () => {
  line = await CommandLine.build();
  await line.say("init", "--agent", "none");
  await line.say("goal", "new", "checkout", "Ship it");
  await line.runAgent("charging");
});
afterAll(() => line.remove());

/** Only on platforms where a process can be proved dead. */
const onLinux = test.runIf(process.platform === "linux");

onLinux("session list says that it crashed", async () => {
  expect((await look("session", "list")).out).toMatch(/order-4711\s+crashed/);
  const { data } = JSON.parse((await look("session", "list", "--json")).out);
  expect(data.sessions).toMatchObject([{ session: "order-4711", running: false, crashed: true }]);
});

onLinux("crashed sessions can be asked for by that word, and are none of the others", async () => {
  expect((await look("session", "list", "--status", "crashed")).out).toContain("order-4711");
  for (const word of ["running", "idle", "completed"]) {
    expect((await look("session", "list", "--status", word)).out).not.toContain("order-4711");
  }
});

onLinux("session show says that its process is gone", async () => {
  const { out } = await look("session", "show", "order-4711");
  expect(out).toMatch(/its process died \(web-3.*, pid \d+\)/);
  expect(out).not.toContain("held by web-3");
  const { data } = JSON.parse((await look("session", "show", "order-4711", "--json")).out);
  expect(data).toMatchObject({ running: false, crashed: true, heldBy: null, calls: [{ running: false }] });
});

onLinux("calls says that nobody is at it", async () => {
  const { out } = await look("calls");
  expect(out).toContain("its session verifies it when it runs again");
  expect(out).not.toContain("right now");
  expect((await look("calls", "--session", "order-4711", "--json")).out).toContain('"running":false');
});

onLinux("status counts it apart, and says what to do", async () => {
  const { out } = await look("status");
  expect(out).toContain("1 crashed");
  expect(out).not.toMatch(/1 (running|idle|with open calls)/);
  expect(out).toMatch(/! 1 session crashed.* +holdfast supervise --once\n/);
  const { data } = JSON.parse((await look("status", "--json")).out);
  expect(data.sessions).toMatchObject({ running: 0, crashed: 1, waiting: 0, idle: 0 });
});
