/**
 * `demo`: kills an agent that charges cards at the worst moments and restarts it until its work is done. Then
 * it compares the payment log with the ledger. The agent is this command line itself, started with
 * `HOLDFAST_DEMO` set to its folder.
 */

import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DefiniteFailure, landed, never, tool } from "../ledger/index.ts";
import { open } from "../open.ts";
import type { Options } from "./command.ts";
import { serveDemo } from "./demo-page.ts";
import { EXIT, envelope, openScreen } from "./screen.ts";

const ORDERS = ["4711", "4712", "4713"];
const KILLS: readonly (readonly [failpoint: string, when: string])[] = [
  ["wave.issued:1", "after the intent to charge was written, before the charge"],
  ["call.executed:2", "after the card was charged, before that was recorded"],
  ["call.recorded:1", "after a charge was recorded, before the model saw it"],
];
const MOST_RUNS = KILLS.length + 3;

export async function demo(options: Options): Promise<void> {
  const folder = process.env["HOLDFAST_DEMO"];
  if (folder !== undefined) return runAgent(folder);
  const made = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  // The record of its last writes goes with the demo's store.
  process.env["XDG_STATE_HOME"] = made;
  try {
    await play(made, options);
  } finally {
    if (options["keep"]) process.stderr.write(`kept: ${made}\n`);
    else rmSync(made, { recursive: true, force: true });
  }
}

async function play(folder: string, options: Options): Promise<void> {
  const { paint } = await openScreen();
  const say = (line: string): void => {
    if (!options["json"]) process.stdout.write(`${line}\n`);
  };
  say(`An agent charges ${ORDERS.length} cards. It is killed ${KILLS.length} times and restarted each time.`);
  const page = options["ui"] ? await serveDemo(join(folder, "store.db")) : null;
  const kills = [...KILLS];
  let runs = 0;
  for (let isDone = false; !isDone && runs < MOST_RUNS; ) {
    const kill = kills.shift();
    isDone = (await run(folder, kill?.[0])) === 0;
    runs++;
    say(
      isDone
        ? `run ${runs}  ${paint.green("done")}`
        : `run ${runs}  ${paint.red("kill -9")} ${kill?.[1] ?? ""}`,
    );
    await page?.rest();
  }
  const world = worldLog(folder);
  const holdfast = await open(join(folder, "store.db"));
  const { calls } = await holdfast.sessions.get("demo");
  await holdfast.close();
  const ledger = calls.filter(({ status }) => status === "completed").length;
  const doubled = world.length - new Set(world).size;
  const lost = ORDERS.filter((order) => !world.includes(order)).length;
  const result = { runs, kills: KILLS.length - kills.length, world: world.length, ledger, doubled, lost };
  if (doubled + lost > 0 || result.world !== ledger) process.exitCode = EXIT.found;
  process.stdout.write(
    options["json"]
      ? envelope("demo", result)
      : `world ${result.world} · ledger ${ledger} · doubled ${doubled} · lost ${lost}\n`,
  );
  await page?.untilStopped();
}

/** Runs the agent once. Returns its exit code, or null if it was killed. */
function run(folder: string, failpoint: string | undefined): Promise<number | null> {
  const { HOLDFAST_FAILPOINT: _other, ...inherited } = process.env;
  const env = { ...inherited, HOLDFAST_DEMO: folder, ...(failpoint && { HOLDFAST_FAILPOINT: failpoint }) };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...process.execArgv, process.argv[1] ?? "", "demo"], {
      env,
      stdio: ["ignore", "ignore", "inherit"],
    });
    child.on("error", reject);
    child.on("close", (code) => resolve(code));
  });
}

function worldLog(folder: string): string[] {
  const file = join(folder, "payments.log");
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
}

const anything = {
  "~standard": {
    version: 1,
    vendor: "holdfast",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

/** The agent: a model that charges one order after another, and a file as the payment service. */
async function runAgent(folder: string): Promise<void> {
  const charge = tool({
    name: "charge",
    description: "Charge a card",
    effect: "mutate",
    input: anything,
    execute: (args) => {
      const { order } = args as { order?: string };
      if (order === undefined) throw new DefiniteFailure("no order was named");
      appendFileSync(join(folder, "payments.log"), `${order}\n`);
      return { paid: order };
    },
    // Only this agent charges, and a killed process cannot charge later, so the log decides.
    verify: (args) => {
      const { order } = args as { order: string };
      return worldLog(folder).includes(order) ? landed({ paid: order }) : never();
    },
  });
  const holdfast = await open(join(folder, "store.db"));
  const session = await holdfast.session("demo");
  await session.run({
    prompt: { id: "orders", text: "Charge every order, once." },
    tools: [charge],
    model: async ({ messages }) => {
      const order = ORDERS[messages.filter(({ role }) => role === "tool").length];
      if (order === undefined) return { message: { text: "All charged." } };
      const call = { kind: "tool_call", id: `c_${order}`, name: "charge", args: { order } } as const;
      return { message: { blocks: [call] } };
    },
  });
  await holdfast.close();
}
