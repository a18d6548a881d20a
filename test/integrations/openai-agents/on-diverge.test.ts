// A deploy changes instructions or an input while a run is in flight: refused, adopted or branched.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Agent, run, setTracingDisabled } from "@openai/agents";
import { afterEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { type Holdfast, open } from "../../../src/index.ts";
import { type DurableOptions, durable } from "../../../src/integrations/openai-agents/index.ts";
import { runInside } from "../../cli/inside.ts";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";
import type agent from "./programs/release.ts";
import type { Release as Deployed } from "./programs/release.ts";
import { resultsIn, ScriptedModel } from "./scripted-model.ts";

setTracingDisabled(true);

const DIVERGED = { code: "PROMPT_DIVERGED" };
const world: string[] = [];
let holdfast: Holdfast;
afterEach(async () => {
  world.splice(0);
  await holdfast.close();
});

interface Release {
  readonly instructions: string;
  readonly text?: string;
  readonly tool?: "charge" | "find";
  readonly onDiverge?: DurableOptions["onDiverge"];
  readonly isDown?: boolean;
}

/** One start of a release. Its model calls the tool, and answers once it has the result. */
async function start({ instructions, text = "Pay", tool = "charge", onDiverge, isDown = false }: Release) {
  const model = new ScriptedModel((request) => {
    if (resultsIn(request) === 0) return [{ call: tool, args: {} }];
    if (isDown) throw new Error("down");
    return [{ text: "paid" }];
  });
  const session = await holdfast.session("s");
  try {
    const d = durable(session, onDiverge ? { onDiverge } : {});
    const made = d.tool({
      name: tool,
      description: tool,
      parameters: z.object({}),
      effect: tool === "find" ? "read" : "mutate",
      execute: () => {
        world.push(tool);
        return "done";
      },
    });
    const agent = new Agent({ name: "Shop", instructions, model: d.model(model), tools: [made] });
    const { finalOutput } = await run(agent, await d.input({ id: "p", text }), { session: d.session });
    return { finalOutput, asked: model.asked.map(({ systemInstructions }) => systemInstructions) };
  } finally {
    await session.close();
  }
}

/** The first release stops after the call: its model does not answer any more. */
async function interrupted(tool: Release["tool"]): Promise<void> {
  holdfast = await open("memory:");
  await expect(start({ instructions: "old", tool: tool ?? "charge", isDown: true })).rejects.toThrow("down");
  expect(world).toEqual([tool]);
}

test("refuse: changed instructions fail, also where a branch would repeat an effect", async () => {
  await interrupted("charge");
  await expect(start({ instructions: "new" })).rejects.toMatchObject(DIVERGED);
  const branched = start({ instructions: "new", onDiverge: "branch" });
  await expect(branched).rejects.toMatchObject({ ...DIVERGED, hint: expect.stringContaining("charge") });
  expect(world).toEqual(["charge"]);
});

test("adopt: recorded turns keep their answers and calls, and the next question has the new text", async () => {
  await interrupted("charge");
  const adopted = await start({ instructions: "new", onDiverge: "adopt" });
  expect(adopted).toEqual({ finalOutput: "paid", asked: ["new"] });
  expect(world).toEqual(["charge"]);
});

test("adopt: an input with a known id and another text is the recorded input", async () => {
  await interrupted("charge");
  await expect(start({ instructions: "old", text: "Pay now" })).rejects.toMatchObject(DIVERGED);
  const adopted = await start({ instructions: "old", text: "Pay now", onDiverge: "adopt" });
  expect(adopted).toEqual({ finalOutput: "paid", asked: ["old"] });
  // Answered, it is answered from the record.
  expect(await start({ instructions: "old", text: "And now?", onDiverge: "adopt" })).toEqual({
    finalOutput: "paid",
    asked: [],
  });
  expect(world).toEqual(["charge"]);
});

test("branch: a run that has only read is asked again with the new text", async () => {
  await interrupted("find");
  const branched = await start({ instructions: "new", tool: "find", onDiverge: "branch" });
  expect(branched).toEqual({ finalOutput: "paid", asked: ["new", "new"] });
});

test("holdfast check --against lists the run before the deploy", async () => {
  const program = programFile(new URL("programs/release.ts", import.meta.url), "agents");
  const folder = mkdtempSync(join(quickFolder(), "holdfast-release-"));
  const store = join(folder, "store.db");
  holdfast = await open(store);
  const { default: start } = (await import(pathToFileURL(program).href)) as { default: typeof agent };
  vi.stubEnv("RELEASE", JSON.stringify({ instructions: "old", isDown: true } satisfies Deployed));
  await expect(start(await holdfast.session("s"))).rejects.toThrow("down");
  vi.unstubAllEnvs();
  await holdfast.close();
  const verdict = async (instructions: string): Promise<unknown> => {
    const env = { RELEASE: JSON.stringify({ instructions } satisfies Deployed) };
    const args = ["check", "--against", program, "--store", store, "--json"];
    const { code, out } = await runInside(folder, args, env);
    return [code, JSON.parse(out).data.sessions[0].verdict];
  };
  expect(await verdict("old")).toEqual([0, "ok"]);
  expect(await verdict("new")).toEqual([5, "diverges"]);
  rmSync(folder, { recursive: true, force: true });
});
