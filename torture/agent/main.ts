/**
 * The tortured agent: the real `session.run` on a real store, with a scripted model and a world in another
 * process.
 */

import { isHoldfastError, open, type RunOptions, type Session } from "../../src/index.ts";
import { acknowledge } from "../acks.ts";
import { type AgentConfig, EXIT, PROMPT, SESSION } from "../scenario.ts";
import { openStore } from "../store-under-test.ts";
import { HarnessChannel } from "./harness-channel.ts";
import { scriptedModel } from "./model.ts";
import { plantBeforeRun, plantInStore, plantInTools, plantOptions } from "./planted-bugs.ts";
import { recorded } from "./recorder.ts";
import { asList, inFlight, makeTools } from "./tools.ts";

const config = JSON.parse(process.argv[2] ?? "{}") as AgentConfig;
const talk = new HarnessChannel(config.talks, config.gated);

const kill = process.kill.bind(process);
if (config.stops) {
  // A failpoint normally kills. Here it stops the process, which continues as a zombie when the harness
  // wakes it.
  process.kill = (pid, signal) => {
    if (signal !== "SIGKILL") return kill(pid, signal);
    talk.sayNow({ at: "stopped" });
    return kill(pid, "SIGSTOP");
  };
}

async function main(): Promise<number> {
  const bare = await openStore(config.dir);
  const store = recorded(plantInStore(config.plant, bare), config.dir, (name) =>
    talk.say({ at: "granted", name }),
  );
  const holdfast = await open(undefined, { store, leaseMs: config.leaseMs });
  try {
    const { sessions = [SESSION], isConcurrent } = config.scenario;
    if (isConcurrent) return await runAtOnce(holdfast, sessions);
    let code: number = EXIT.done;
    for (const id of sessions) {
      code = await runSession(holdfast, id);
      if (code !== EXIT.done) break;
    }
    return code;
  } catch (error) {
    if (isHoldfastError(error, "LEASE_LOST")) await ownAnswers();
    throw error;
  } finally {
    await holdfast.close();
  }
}

/** A program that lost its session lets its tools finish, so that their late answers are recorded. */
async function ownAnswers(): Promise<void> {
  await Promise.all(inFlight);
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits for all of them, also if one fails: what the others are told still counts. */
async function runAtOnce(
  holdfast: Awaited<ReturnType<typeof open>>,
  sessions: readonly string[],
): Promise<number> {
  const running = sessions.map((id) => runSession(holdfast, id));
  await Promise.allSettled(running);
  const codes = await Promise.all(running);
  return codes.find((code) => code !== EXIT.done) ?? EXIT.done;
}

async function runSession(holdfast: Awaited<ReturnType<typeof open>>, id: string): Promise<number> {
  const { scenario, plant } = config;
  if (scenario.loop) return runOwnLoop(holdfast, id, scenario.loop);
  const session = scenario.isRequest ? null : await holdfast.session(id);
  talk.say({ at: "opened" });
  const tools = plantInTools(
    plant,
    makeTools(config, () => {
      talk.say({ at: "sent" });
      if (config.stopsWhenSent) kill(process.pid, "SIGSTOP");
    }),
  );
  if (session) await plantBeforeRun(plant, session, tools);
  const watching = config.talks && session ? watchState(session) : null;
  const options: RunOptions = {
    model: scriptedModel(config, id, () => talk.ask("model")),
    tools: asList(tools),
    prompt: PROMPT,
    parallel: scenario.parallel,
    ...(scenario.budget && { budget: scenario.budget }),
    ...(scenario.cadence && { cadence: scenario.cadence }),
    ...plantOptions(plant),
    on: (progress) =>
      talk.say({ at: progress.type, ...("callId" in progress && { callId: progress.callId }) }),
  };
  const result = await (session ? session.run(options) : holdfast.run(id, options));
  if (watching) clearInterval(watching);
  const persons = result.waiting.filter((call) => call.person).length;
  const { status, reason } = result;
  acknowledge(config.dir, { t: "result", session: id, status, reason, persons });
  talk.say({ at: "result", status, reason });
  await session?.close();
  return status === "done" ? EXIT.done : status === "waiting" ? EXIT.waiting : EXIT.paused;
}

/** A program without `session.run`. */
async function runOwnLoop(
  holdfast: Awaited<ReturnType<typeof open>>,
  id: string,
  loop: "issuing" | "direct",
): Promise<number> {
  const session = await holdfast.session(id);
  talk.say({ at: "opened" });
  const tools = plantInTools(
    config.plant,
    makeTools(config, () => talk.say({ at: "sent" })),
  );
  const isDone = await (loop === "direct" ? callDirectly(session, tools) : answerAndCall(session, tools));
  const status = isDone ? "done" : "waiting";
  const persons = session.openCalls.filter((call) => call.status === "waiting").length;
  acknowledge(config.dir, { t: "result", session: id, status, reason: loop, persons });
  talk.say({ at: "result", status, reason: loop });
  await session.close();
  return isDone ? EXIT.done : EXIT.waiting;
}

/** False if a call waits for a person. */
async function answerAndCall(session: Session, tools: ReturnType<typeof makeTools>): Promise<boolean> {
  const model = scriptedModel(config, session.id, () => talk.ask("model"));
  const list = asList(tools);
  const { parallel } = config.scenario;
  for (;;) {
    const message = session.unfinished;
    if (message) {
      if (!(await session.calls(message, list, { parallel })).done) return false;
      continue;
    }
    const last = session.messages.at(-1);
    if (last?.role === "assistant") return true;
    const asked = { system: null, messages: session.messages, tools: [], partial: () => undefined };
    const answer = await model({ ...asked, signal: session.lost });
    await session.append({ role: "assistant", ...answer.message }, { issue: list, parallel });
  }
}

/** Relies on an outcome once a later act has made it durable. */
async function callDirectly(session: Session, tools: ReturnType<typeof makeTools>): Promise<boolean> {
  let kept: string[] = [];
  const relyOnKept = (): void => {
    for (const callId of kept) acknowledge(config.dir, { t: "settled", session: session.id, callId });
    kept = [];
  };
  for (const [index, { tool, item, world }] of config.scenario.turns.flat().entries()) {
    const args = { item, ...(world && { world }) };
    const callId = `d${index}`;
    const outcome = await session.call({ tool: tools[tool], args, callId, settle: "with-next" });
    if (outcome.status === "waiting") return false;
    if (outcome.status !== "completed") continue;
    if (!outcome.recorded) relyOnKept();
    kept.push(callId);
  }
  await session.checkpoint();
  relyOnKept();
  return true;
}

/** Reports to the harness when commands of other processes have arrived in this one. */
function watchState(session: Session): NodeJS.Timeout {
  let before = "";
  return setInterval(() => {
    const open = session.openCalls.map((call) => `${call.tool} ${call.status}`);
    const prompts = session.prompts.length;
    const now = JSON.stringify([open, prompts]);
    if (now !== before) talk.say({ at: "state", open, prompts });
    before = now;
  }, 10);
}

function exitCode(error: unknown): number {
  if (isHoldfastError(error, "LEASE_LOST")) return EXIT.leaseLost;
  if (isHoldfastError(error, "SESSION_HELD")) return EXIT.held;
  return isHoldfastError(error) ? EXIT.failed : EXIT.crashed;
}

let code: number;
try {
  code = await main();
  acknowledge(config.dir, { t: "end", code, error: null });
} catch (error) {
  code = exitCode(error);
  const text =
    error instanceof Error ? `${(error as { code?: string }).code ?? ""} ${error.message}` : String(error);
  acknowledge(config.dir, { t: "end", code, error: text });
  if (code === EXIT.crashed) console.error(error);
}
process.exit(code);
