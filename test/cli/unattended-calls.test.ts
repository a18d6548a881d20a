// The call of a dead agent is shown as needing attention until its session runs or a person resolves the
// call.

import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
const look = async (...words: string[]): Promise<string> => {
  const { code, out, err } = await runInside(line.project, words);
  expect(code, err).toBe(0);
  return out;
};

beforeAll(async () => {
  line = await CommandLine.build();
  await line.say("init", "--agent", "none");
  await line.runAgent("charging");
});
afterAll(() => line.remove());

/** Only on platforms where a process can be proved dead. */
const onLinux = test.runIf(process.platform === "linux");

onLinux("status names it, before and after the command that it recommends was run", async () => {
  const need = /! charge c_8fk2 of order-4711 has no outcome and no running process: .* {2}holdfast calls\n/;
  expect(await look("status")).toMatch(need);
  const [recommended = ""] = /holdfast supervise --once/.exec(await look("status")) ?? [];
  const cleared = await look(...recommended.split(" ").slice(1));
  expect(cleared).toContain("crashed: session order-4711");
  expect(cleared).toContain("open: charge c_8fk2 of order-4711");
  expect(cleared, "the next step").toContain("holdfast calls");
  expect(await look("status")).toMatch(need);
  const { data } = JSON.parse(await look("status", "--json"));
  expect(data.next).toMatchObject({ command: "holdfast calls" });
});

onLinux("calls says how to answer for it, and the answer is taken", async () => {
  const page = await look("calls");
  expect(page).toContain("holdfast resolve c_8fk2 landed");
  expect(page).toMatch(/ {2}issued \d+ \w+ ago\n/);
  await look("resolve", "c_8fk2", "landed", "--by", "ann", "--why", "seen in the bank");
  expect(await look("status")).not.toContain("!");
  expect(await look("calls")).toBe("no open calls\n");
  const { data } = JSON.parse(await look("session", "show", "order-4711", "--json"));
  expect(data.calls).toMatchObject([{ status: "completed", settledBy: "person", why: "seen in the bank" }]);
});

onLinux("whoever answers after that hears who did, and how", async () => {
  const words = ["resolve", "c_8fk2", "failed", "--by", "bob", "--why", "not there"];
  const { code, err } = await runInside(line.project, words);
  expect({ code, err }).toMatchObject({ code: 4, err: expect.stringContaining("is completed") });
  expect(err).toContain("ann has answered for it (seen in the bank)");
});

onLinux("the agent goes on from the answer", async () => {
  expect(await line.runAgent(null)).toContain("Paid.");
});
