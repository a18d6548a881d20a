/**
 * The integration `holdfast/claude-agent-sdk` with the real SDK and a scripted model: `npm run agents:sdk`, or
 * `npm run agents:sdk -- budget fork` for some scenarios. It installs the SDK from npm into a temporary folder and
 * needs no key. Where the SDK cannot be had, it says why and ends.
 *
 * `npm test` leaves it out, because it downloads 400 MB. `HOLDFAST_AGENTS=<folder>` uses the `node_modules` of
 * that folder instead.
 */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { open } from "../../../src/index.ts";
import { HoldfastSessionStore } from "../../../src/integrations/claude-agent-sdk/index.ts";
import { type AnthropicServer, type ModelScript, startAnthropicServer } from "../anthropic-server.ts";
import type { HostOrder } from "./host.ts";

const VERSION = "0.3.327";
const NAME = "@anthropic-ai/claude-agent-sdk";
const LIMIT_MS = 120_000;

const folder = mkdtempSync(join(tmpdir(), "holdfast-claude-sdk-"));
/** Inside `node_modules`, so that the program finds the packages. */
const programs = mkdtempSync(join(resolve("node_modules"), ".claude-sdk-"));
const started = new Set<ChildProcess>();

process.on("exit", () => {
  for (const child of started) child.kill("SIGKILL");
  for (const each of [folder, programs]) rmSync(each, { recursive: true, force: true });
});

/** The SDK's module, or why there is none. */
function install(): { module: string } | { why: string } {
  const given = process.env["HOLDFAST_AGENTS"];
  const home = given ?? folder;
  if (given === undefined) {
    writeFileSync(join(home, "package.json"), "{}");
    const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", `${NAME}@${VERSION}`];
    const { status, stderr } = spawnSync("npm", args, { cwd: home, encoding: "utf8" });
    if (status !== 0) return { why: `npm cannot install ${NAME}@${VERSION}: ${stderr.trim().slice(-300)}` };
  }
  const module = join(home, "node_modules", NAME, "sdk.mjs");
  return existsSync(module) ? { module } : { why: `${module} does not exist` };
}

function bundleHost(): string {
  const request = {
    folder: programs,
    programs: { host: resolve("test/agents/claude-sdk/host.ts") },
    external: Object.keys(JSON.parse(readFileSync("package.json", "utf8")).dependencies as object).concat(
      "zod",
      "@photostructure/sqlite",
    ),
  };
  const { status, stderr } = spawnSync(
    process.execPath,
    ["scripts/bundle-programs.mjs", JSON.stringify(request)],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  return join(programs, "host.mjs");
}

// biome-ignore lint/suspicious/noExplicitAny: messages of the SDK, whose types are not installed.
type Output = any;

/** One scenario: a store, a world, and a host that is started as often as needed. */
class Scenario {
  readonly place: string;
  readonly world: string;
  readonly store: string;
  private readonly model: AnthropicServer;
  readonly sdk: string;
  private readonly host: string;
  private count = 0;

  constructor(model: AnthropicServer, sdk: string, host: string) {
    this.place = mkdtempSync(join(folder, "scenario-"));
    this.world = join(this.place, "world");
    this.store = join(this.place, "state.db");
    mkdirSync(join(this.place, "project"));
    writeFileSync(this.world, "");
    this.model = model;
    this.sdk = sdk;
    this.host = host;
  }

  environment(): Record<string, string | undefined> {
    return {
      ...process.env,
      ANTHROPIC_BASE_URL: this.model.url,
      ANTHROPIC_API_KEY: "none",
      CLAUDE_CONFIG_DIR: join(this.place, "config"),
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    };
  }

  asked(times: number) {
    return this.model.asked(times);
  }

  get requests() {
    return this.model.requests;
  }

  /** Lines of the world. */
  get charges(): string[] {
    return readFileSync(this.world, "utf8").split("\n").filter(Boolean);
  }

  start(order: Partial<HostOrder> & { prompt: string }) {
    this.count += 1;
    const whole: HostOrder = {
      session: "shop",
      sdk: this.sdk,
      store: this.store,
      world: this.world,
      cwd: join(this.place, "project"),
      model: this.model.url,
      // Each start is another machine: only the store is shared.
      config: join(this.place, `config-${this.count}`),
      ...order,
    };
    const child = spawn(process.execPath, [this.host, JSON.stringify(whole)], {
      stdio: ["ignore", "pipe", "pipe"],
      timeout: LIMIT_MS,
      killSignal: "SIGKILL",
    });
    started.add(child);
    let [out, errors] = ["", ""];
    child.stdout.on("data", (text) => {
      out += text;
    });
    child.stderr.on("data", (text) => {
      errors += text;
    });
    const ended = once(child, "close").then(() => {
      started.delete(child);
      const messages: Output[] = out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      const last = messages.at(-1);
      const result = messages.findLast(({ type }) => type === "result");
      return { messages, last, result, errors, text: result?.result as string | undefined };
    });
    return { child, ended };
  }

  run(order: Partial<HostOrder> & { prompt: string }) {
    return this.start(order).ended;
  }

  async withStore<Result>(act: (holdfast: Awaited<ReturnType<typeof open>>) => Promise<Result>) {
    const holdfast = await open(this.store);
    try {
      return await act(holdfast);
    } finally {
      await holdfast.close();
    }
  }
}

function check(what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return;
  throw new Error(
    `${what}: ${JSON.stringify(actual)?.slice(0, 1_500)} (expected ${JSON.stringify(expected)})`,
  );
}

function checkText(what: string, text: string | undefined, part: string | RegExp): void {
  if (typeof part === "string" ? text?.includes(part) : part.test(text ?? "")) return;
  throw new Error(`${what}: ${JSON.stringify(text?.slice(-1_500))} (expected ${part})`);
}

/** Pays by the shell; the first time it kills the program and its agent right after. */
const PAY_AND_DIE =
  'echo "pay 4711" >> "$WORLD"; [ "$(wc -l < "$WORLD")" -gt 1 ] || kill -9 $HOST_PID $PPID; echo paid';

/** Asks for the payment until a result says that it happened, as a model does. */
const pays =
  (command: string): ModelScript =>
  ({ results, text }) => {
    const isPaid = [...results.map((each) => each.text), text].some((each) =>
      /paid|found in the books/.test(each),
    );
    if (isPaid && results.length > 0) return { text: `Done: ${results.at(-1)?.text}` };
    if (/\[holdfast\].*(paid|found in the books)/.test(text)) return { text: "Done: known from the record" };
    return {
      text: "I pay.",
      calls: [{ name: "Bash", input: { command, description: `Pay ${Math.random()}` } }],
    };
  };

/** Holds the model's answer back until the program was killed. */
let killing: Promise<void> = Promise.resolve();

const charges: ModelScript = ({ results, turn }) =>
  turn === 0
    ? { calls: [{ name: "mcp__shop__charge", input: { order: "4711" } }] }
    : { text: `Done: ${results.at(-1)?.text}` };

async function onlyCall(holdfast: Awaited<ReturnType<typeof open>>) {
  const { calls } = await holdfast.calls.list();
  check("calls that wait", calls.length, 1);
  return calls[0] as (typeof calls)[number];
}

const SCENARIOS: Readonly<Record<string, readonly [ModelScript, (scenario: Scenario) => Promise<void>]>> = {
  "killed-verified": [
    pays(PAY_AND_DIE),
    async (scenario) => {
      const killed = await scenario.run({ prompt: "Pay order 4711", verify: true });
      check("the first start was killed", killed.last?.ended, undefined);
      check("charges", scenario.charges.length, 1);
      const resumed = await scenario.run({ prompt: "Pay order 4711", verify: true });
      check("end", resumed.last?.ended ?? resumed, true);
      check("charges after the resume", scenario.charges.length, 1);
      checkText("the model was told", scenario.requests.at(-1)?.text, "found in the books");
      const again = await scenario.run({ prompt: "Pay order 4711", promptId: "new", verify: true });
      check("another prompt runs", again.last?.ended ?? again, true);
    },
  ],
  "killed-person": [
    ({ results, text }) =>
      results.length > 0 && /paid|confirmed/.test(results.at(-1)?.text ?? "")
        ? { text: `Done: ${results.at(-1)?.text}` }
        : /confirmed/.test(text)
          ? { text: "Done: confirmed" }
          : { calls: [{ name: "Bash", input: { command: PAY_AND_DIE } }] },
    async (scenario) => {
      const order = { prompt: "Pay order 4711", promptId: "pay" };
      await scenario.run(order);
      const waits = await scenario.run(order);
      check("it is deferred", waits.result?.stop_reason ?? waits, "tool_deferred");
      check("charges", scenario.charges.length, 1);
      const refused = await scenario.run(order);
      check("it still waits", refused.last?.failed, "SESSION_HAS_OPEN_CALLS");
      await scenario.withStore(async (holdfast) => {
        const call = await onlyCall(holdfast);
        check("the call that waits", call.tool, "Bash");
        const answer = { outcome: "landed", result: "paid, says the bank", by: "ann", why: "seen" } as const;
        await holdfast.calls.resolve(call.callId, answer);
      });
      const done = await scenario.run(order);
      checkText("answer", done.text ?? JSON.stringify(done), "Done");
      check("charges at the end", scenario.charges.length, 1);
    },
  ],
  "killed-before-the-answer": [
    ({ results, turn }) => {
      if (turn === 0) return { calls: [{ name: "mcp__shop__charge", input: { order: "4711" } }] };
      return { text: `Done: ${results.at(-1)?.text}`, after: killing };
    },
    async (scenario) => {
      const order = { prompt: "Charge order 4711" };
      let free: () => void = () => undefined;
      killing = new Promise((resolve) => {
        free = resolve;
      });
      const { child, ended } = scenario.start(order);
      const early = await Promise.race([scenario.asked(2).then(() => null), ended]);
      check("the end of the host before the second question", early?.last ?? null, null);
      child.kill("SIGKILL");
      await ended;
      free();
      const resumed = await scenario.run(order);
      check("end", resumed.last?.ended ?? resumed, true);
      check("charges", scenario.charges, ["4711"]);
    },
  ],
  approval: [
    charges,
    async (scenario) => {
      const order = { prompt: "Charge order 4711", needsApproval: true };
      const first = await scenario.run(order);
      check("it is deferred", first.result?.stop_reason ?? first, "tool_deferred");
      check("no charge yet", scenario.charges, []);
      await scenario.withStore(async (holdfast) => {
        const { callId } = await onlyCall(holdfast);
        await holdfast.calls.approve(callId, { by: "ann", args: { order: "4712" } });
      });
      const done = await scenario.run(order);
      checkText("answer", done.text ?? JSON.stringify(done), "Done: charged 4712");
      check("charges", scenario.charges, ["4712"]);
    },
  ],
  permission: [
    charges,
    async (scenario) => {
      for (const answer of ["approve", "deny"] as const) {
        const order = { prompt: `Charge order 4711 (${answer})`, allowed: [] };
        const { ended } = scenario.start(order);
        await scenario.withStore(async (holdfast) => {
          let { calls } = await holdfast.calls.list();
          for (; !calls.some(({ status }) => status === "waiting"); { calls } = await holdfast.calls.list())
            await new Promise((resolve) => setTimeout(resolve, 100));
          const callId = calls.find(({ status }) => status === "waiting")?.callId ?? "";
          if (answer === "approve") await holdfast.calls.approve(callId, { by: "ann" });
          else await holdfast.calls.deny(callId, { by: "ann", why: "too much" });
        });
        const { text, messages } = await ended;
        checkText(
          "answer",
          text ?? JSON.stringify(messages),
          answer === "approve" ? "charged 4711" : "too much",
        );
      }
      check("charges", scenario.charges, ["4711"]);
    },
  ],
  budget: [
    [],
    async (scenario) => {
      const first = await scenario.run({ prompt: "One", limitUsd: 0.02 });
      const cost = first.result?.total_cost_usd as number;
      check("spent", first.last?.spent?.usd ?? first, cost);
      const second = await scenario.run({ prompt: "Two", limitUsd: 0.02 });
      check("spent over both queries", second.last?.spent?.usd, second.result?.total_cost_usd);
      const third = await scenario.run({ prompt: "Three", limitUsd: cost });
      check("the third is refused", third.last?.failed, "BUDGET_EXCEEDED");
      check("the model was asked twice", scenario.requests.length, 2);
    },
  ],
  "session-store": [
    [],
    async (scenario) => {
      const sdk = await import(pathToFileURL(scenario.sdk).href);
      await scenario.withStore(async (holdfast) => {
        const sessionStore = new HoldfastSessionStore(holdfast);
        const dir = join(scenario.place, "project");
        const env = scenario.environment();
        const ask = async (prompt: string, more: object): Promise<Output> => {
          let last: Output;
          const options = { cwd: dir, settingSources: [], sessionStore, env, ...more };
          for await (const message of sdk.query({ prompt, options })) last = message;
          return last;
        };
        const { session_id: id } = await ask("Please remember 17", {});
        rmSync(String(env["CLAUDE_CONFIG_DIR"]), { recursive: true, force: true });
        await ask("Again", { resume: id });
        checkText("the past comes from the store", scenario.requests.at(-1)?.text, "remember 17");
        const messages: Output[] = await sdk.getSessionMessages(id, { dir, sessionStore });
        check("messages", messages.length, 4);
        const fork = await sdk.forkSession(id, { dir, sessionStore });
        const ids = (await sdk.listSessions({ dir, sessionStore })).map((each: Output) => each.sessionId);
        check("sessions", ids.sort(), [id, fork.sessionId].sort());
        await sdk.deleteSession(id, { dir, sessionStore });
        check("after the removal", (await sdk.listSessions({ dir, sessionStore })).length, 1);
      });
    },
  ],
  fork: [
    ({ text, prompt }) => ({ text: `${prompt}: ${/remember 17/.test(text) ? "17" : "nothing"}` }),
    async (scenario) => {
      await scenario.run({ prompt: "Please remember 17" });
      await scenario.run({ prompt: "Later" });
      const fork = await scenario.run({ prompt: "In the fork", session: "fork", forkOf: "shop" });
      checkText("the fork knows the past", fork.text ?? JSON.stringify(fork), "In the fork: 17");
      const again = await scenario.run({ prompt: "Again", session: "fork" });
      checkText("the fork goes on", again.text ?? JSON.stringify(again), "Again: 17");
      checkText("with its own past", scenario.requests.at(-1)?.text, "In the fork");
      const parent = await scenario.run({ prompt: "In the parent" });
      check("ids differ", parent.result.session_id === again.result.session_id, false);
      check("the parent did not hear", scenario.requests.at(-1)?.text.includes("In the fork"), false);
    },
  ],
};

const sdk = install();
if ("why" in sdk) {
  console.log(`skipped: ${sdk.why}`);
} else {
  const host = bundleHost();
  const wanted = process.argv.slice(2);
  for (const [name, [script, play]] of Object.entries(SCENARIOS)) {
    if (wanted.length > 0 && !wanted.some((each) => name.includes(each))) continue;
    const model = await startAnthropicServer(script);
    try {
      await play(new Scenario(model, sdk.module, host));
      console.log(`ok      ${name}`);
    } catch (error) {
      console.log(`FAILED  ${name}: ${(error as Error).message}`);
      process.exitCode = 1;
    } finally {
      await model.close();
    }
  }
}
