// Pages on sessions and calls, and the commands that resolve calls.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callsPage } from "../../src/cli/session-pages.ts";
import { landed, tool } from "../../src/ledger/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import { agentTool, type RunResult } from "../../src/session/index.ts";
import { CommandLine, type Ran } from "./command-line.ts";
import { runInside } from "./inside.ts";

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;
let charged = 0;
const charge = tool({
  name: "charge",
  description: "Charge a card",
  effect: "mutate",
  input: anything,
  execute: async (_args: unknown) => {
    charged++;
    throw new Error("the line went dead");
  },
});

const same = (text: string): string => text;
const SCREEN = {
  paint: { bold: same, dim: same, red: same, yellow: same, green: same, cyan: same },
  width: 200,
  isTerminal: false,
};
const ann = ["--by", "ann", "--why", "seen in the bank"];
let line: CommandLine;

beforeAll(async () => {
  line = await CommandLine.build();
  await store(async (holdfast) => {
    const session = await holdfast.session("order", { title: "Pay" });
    for (const id of ["a1", "b2", "c3"]) await session.call({ tool: charge, args: { id }, callId: id });
    await session.checkpoint();
    await session.close();
  });
});
afterAll(() => line.remove());

async function store<Result>(act: (holdfast: Holdfast) => Promise<Result>): Promise<Result> {
  const holdfast = await open(join(line.project, ".holdfast"));
  try {
    return await act(holdfast);
  } finally {
    await holdfast.close();
  }
}

const run = (...words: string[]): Promise<Ran> => runInside(line.project, words);
const say = async (...words: string[]): Promise<string> => {
  const { code, out, err } = await run(...words);
  expect(code, err).toBe(0);
  return out;
};

test("a result that is not JSON is rejected before anything is recorded", async () => {
  const { code, err } = await run("resolve", "a1", "landed", "--result", "{id:1}", ...ann);
  expect(code).toBe(2);
  expect(err).toContain("--result: {id:1} is not JSON");
  expect(err, "how to pass text").toContain(`--result '"`);
  expect(await say("calls"), "it still waits").toContain("a1");
  expect(await say("resolve", "a1", "landed", "--result", '"pay_1"', ...ann)).not.toContain("no result");
});

test("an answer without a result says that no result was recorded", async () => {
  expect(await say("resolve", "b2", "landed", ...ann)).toContain("no result was recorded");
  expect(await say("calls", "--session", "order")).toContain("b2");
});

test("the open calls of one session are listed without its settled ones", async () => {
  const all = await say("calls", "--session", "order");
  expect(all, "a settled call waits for nothing").not.toContain("when it runs again");
  for (const id of ["a1", "b2", "c3"]) expect(all).toContain(id);
  const left = await say("calls", "--open", "--session", "order");
  expect(left).toContain("c3");
  expect(left).not.toContain("a1");
});

test("a fork reports that its effects are off, and a person switches them on and off", async () => {
  const made = await say("session", "fork", "order", "try");
  expect(made).toContain("its effects are off");
  expect(made).toContain("holdfast session effects try on");
  const shown = await say("session", "show", "try");
  expect(shown).toContain("forked from order at version 1");
  expect(shown).toContain("its effects are off");
  let tried = 0;
  const call = () =>
    store(async (holdfast) => {
      const session = await holdfast.session("try");
      const { status } = await session.call({ tool: charge, args: { tried: ++tried } });
      await session.close();
      return status;
    });
  const before = charged;
  expect(await call()).toBe("failed");
  expect((await run("session", "effects", "try", "on")).code, "the page for people").toBe(2);
  expect((await run("session", "effects", "try", "maybe", ...ann)).code).toBe(2);
  expect(await say("session", "effects", "try", "on", ...ann)).toContain("try: effects are on");
  expect(await say("session", "show", "try")).not.toMatch(/^its effects are off/m);
  expect(await say("session", "log", "try")).toContain("live by ann: seen in the bank");
  expect(charged).toBe(before);
  expect(await call()).toBe("waiting");
  expect(charged).toBe(before + 1);
  expect(await say("session", "effects", "try", "off", ...ann)).toContain("try: effects are off");
  expect(await call()).toBe("failed");
  const { code, err } = await run("session", "effects", "order", "off", ...ann);
  expect(code).toBe(2);
  expect(err).toContain("order is no fork");
});

test("an open call says what happens to it next", async () => {
  let listed = "";
  const slow = tool({
    ...charge,
    name: "slow",
    execute: async () => {
      listed = await say("calls", "--open", "--session", "slow");
    },
  });
  await store(async (holdfast) => {
    const session = await holdfast.session("slow");
    await session.call({ tool: slow, args: {}, callId: "s1" });
  });
  expect(listed).toContain("it is running");
  const killed = { ...(await calls())[0], status: "unknown", open: true, running: false };
  const page = callsPage(
    { waiting: 0, namespaces: ["default"], unreadable: [], calls: [killed as never] },
    SCREEN,
  );
  expect(page).toContain("if the tool cannot tell, it waits for you");

  async function calls(): Promise<object[]> {
    return JSON.parse(await say("calls", "--session", "slow", "--json")).data.calls;
  }
});

test("the list shows which session runs and which is its parent", async () => {
  await store(async (holdfast) => {
    let listed = "";
    const helper = tool(
      agentTool({
        name: "helper",
        description: "Helps",
        input: anything,
        run: async () => {
          listed = await say("session", "list");
          return { status: "done", text: "helped" } as RunResult;
        },
      }),
    );
    const parent = await holdfast.session("boss");
    await parent.call({ tool: helper, args: {}, callId: "h1" });
    await parent.close();
    expect(listed).toMatch(/^boss +running/m);
    expect(listed).toMatch(/^order +idle/m);
    expect(listed).toMatch(/^sub-\S+ +running .*boss/m);
  });
  const after = await say("session", "list");
  expect(after).toMatch(/^sub-\S+ +completed .*boss/m);
  expect(after).toMatch(/^boss +idle/m);
});

test("a settled call shows how it was settled, not why it was unknown before", async () => {
  const dead = (): Promise<never> => Promise.reject(new Error("the line went dead"));
  let asked = 0;
  const answers = (): unknown => (++asked === 1 ? dead() : "paid");
  const spec = { description: "", effect: "mutate", input: anything } as const;
  const again = tool({ ...spec, name: "again", idempotent: true, execute: answers });
  const found = tool({ ...spec, name: "found", execute: dead, verify: () => landed("paid") });
  const odd = tool({ ...spec, name: "odd", execute: () => ({ sum: 1n }) as never });
  await store(async (holdfast) => {
    const session = await holdfast.session("ends");
    await session.call({ tool: again, args: {}, callId: "e1" });
    await session.call({ tool: found, args: {}, callId: "e2" });
    await session.call({ tool: charge, args: {}, callId: "e3" });
    await session.call({ tool: charge, args: { other: true }, callId: "e4" });
    await session.call({ tool: odd, args: {}, callId: "e5" });
    await session.close();
  });
  await say("resolve", "e3", "landed", ...ann);
  await say("resolve", "e4", "failed", ...ann);
  const page = await say("session", "show", "ends");
  expect(page).toMatch(/e1 .*completed .*answered at attempt 2/);
  expect(page).toMatch(/e2 .*completed .*confirmed by its verify/);
  expect(page).toMatch(/e3 .*completed .*seen in the bank/);
  expect(page).toMatch(/e4 .*failed .*ann says that it did not happen: seen in the bank/);
  expect(page, "a note on its result").toMatch(/e5 .*completed .*BigInt/i);
  expect(page).not.toContain("went dead");
});
