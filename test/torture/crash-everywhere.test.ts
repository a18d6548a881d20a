import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { crashEverywhere } from "../../src/testing/index.ts";
import { bundleProgram, linkModules } from "../../torture/bundle.ts";
import { quickFolder } from "../quick-folder.ts";

const LIMIT_MS = 180_000;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-crash-test-"));
  linkModules(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const world = (): string => join(folder, "payments.log");
const setup = (): void => {
  for (const name of ["payments.log", "state", "plan.json"]) {
    rmSync(join(folder, name), { recursive: true, force: true });
  }
};
const effects = (): string[] => {
  return existsSync(world()) ? readFileSync(world(), "utf8").split("\n").filter(Boolean) : [];
};

async function program(name: string, text: string): Promise<[string, ...string[]]> {
  return [process.execPath, await bundleProgram(text, folder, name)];
}

/** Pays two orders, and knows only from its own notes which ones it has paid. */
const NAIVE = `
  import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
  import { failpoint } from "./src/failpoint.ts";
  const paid = existsSync("plan.json") ? JSON.parse(readFileSync("plan.json", "utf8")) : [];
  for (const order of ["order-1", "order-2"]) {
    if (paid.includes(order)) continue;
    failpoint("call.starts");
    appendFileSync("payments.log", order + "\\n");
    failpoint("call.executed");
    paid.push(order);
    writeFileSync("plan.json", JSON.stringify(paid));
    failpoint("call.recorded");
  }
`;

/** The same with a ledger: payments can be looked up, so an unknown one is verified. */
const CAREFUL = `
  import { appendFileSync, existsSync, readFileSync } from "node:fs";
  import { landed, never, open, tool } from "./src/index.ts";
  const accepts = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }), jsonSchema: { input: () => ({}) } } };
  const paid = () => existsSync("payments.log") ? readFileSync("payments.log", "utf8").split("\\n") : [];
  const pay = tool({
    name: "pay", description: "pays an order", input: accepts, effect: "mutate",
    execute: ({ order }) => { appendFileSync("payments.log", order + "\\n"); return "paid"; },
    verify: ({ order }) => paid().includes(order) ? landed("paid") : never(),
  });
  const model = async ({ messages }) => {
    const turn = messages.filter((message) => message.role === "assistant").length;
    if (turn === 1) return { message: { text: "paid" } };
    const call = { kind: "tool_call", id: "call-1", name: "pay", args: { order: "order-1" } };
    return { message: { blocks: [call] } };
  };
  const holdfast = await open("./state");
  const session = await holdfast.session("payments");
  const result = await session.run({ model, tools: [pay], prompt: { id: "p", text: "pay" } });
  await holdfast.close();
  process.exit(result.status === "done" ? 0 : 1);
`;

const options = { setup, effects };

test("an agent without a ledger is reported as doubling its effects", { timeout: LIMIT_MS }, async () => {
  const command = await program("naive", NAIVE);
  const report = await crashEverywhere({ ...options, cwd: folder, command });
  expect(report.kills).toBe(6);
  expect(report.doubled).toEqual([
    { failpoint: "call.executed:1", effect: "order-1" },
    { failpoint: "call.executed:2", effect: "order-2" },
  ]);
  expect(report).toMatchObject({ lost: [], stuck: [] });
});

test("an agent that forgets its intents is reported as losing effects", {
  timeout: LIMIT_MS,
}, async () => {
  const forgetful = NAIVE.replace(
    'failpoint("call.starts");',
    'writeFileSync("plan.json", JSON.stringify([...paid, order])); failpoint("call.starts");',
  );
  const report = await crashEverywhere({
    ...options,
    cwd: folder,
    command: await program("forgetful", forgetful),
  });
  expect(report.lost).toContainEqual({ failpoint: "call.starts:1", effect: "order-1" });
});

test("an agent that cannot recover from a crash is reported as stuck", { timeout: LIMIT_MS }, async () => {
  const brittle = `
    import { existsSync, writeFileSync } from "node:fs";
    import { failpoint } from "./src/failpoint.ts";
    if (existsSync("plan.json")) process.exit(3);
    writeFileSync("plan.json", "locked");
    failpoint("call.starts");
  `;
  const command = await program("brittle", brittle);
  const report = await crashEverywhere({ ...options, cwd: folder, command, maxRuns: 2 });
  expect(report).toMatchObject({ runs: 4, kills: 1, stuck: ["call.starts:1"] });
});

test("a program that passes no failpoint, or always fails, is rejected", {
  timeout: LIMIT_MS,
}, async () => {
  await expect(
    crashEverywhere({ ...options, cwd: folder, command: await program("none", "") }),
  ).rejects.toThrow("passed no failpoint");
  const fails = await program("fails", "process.exit(7)");
  await expect(crashEverywhere({ ...options, cwd: folder, command: fails })).rejects.toThrow("exit 7");
});

test("an agent with a ledger loses and doubles nothing wherever it is killed", {
  timeout: LIMIT_MS,
}, async () => {
  const command = await program("careful", CAREFUL);
  const done: string[] = [];
  const report = await crashEverywhere({
    ...options,
    cwd: folder,
    command,
    done: ({ failpoint }) => done.push(failpoint),
  });
  expect(report).toMatchObject({ lost: [], doubled: [], stuck: [] });
  expect(report.kills).toBe(done.length);
  expect(done).toContain("call.executed:1");
});
