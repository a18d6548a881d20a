// A store as a shop would have it after a bad night: sessions that are done, that wait, that crashed; a goal
// with a blocker. Agents are real processes, and the crash is a real kill.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Goal } from "../../src/goal/index.ts";
import { open } from "../../src/open.ts";
import { projectGoal } from "../../src/projections/index.ts";
import { forge, plant } from "../projections/forged-events.ts";

export interface Script {
  readonly calls: readonly (readonly [tool: string, args: Record<string, unknown>])[];
  readonly title?: string;
  readonly goal?: string;
  readonly hang?: boolean;
  readonly doubt?: boolean;
  readonly budget?: number;
  readonly until?: "done";
  readonly large?: number;
}

/** Starts the agent. `lines` has what it printed so far. */
export function startAgent(program: string, store: string, session: string, script: Script) {
  const child = spawn(process.execPath, [program, store, session, JSON.stringify(script)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: string[] = [];
  let rest = "";
  const waiting = new Set<() => void>();
  child.stdout.on("data", (chunk: Buffer) => {
    const parts = (rest + chunk.toString()).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts);
    for (const wake of waiting) wake();
  });
  /** Resolves once a line begins with `text`, for the `count`-th time. */
  const printed = async (text: string, count = 1): Promise<void> => {
    while (lines.filter((line) => line.startsWith(text)).length < count) {
      if (child.exitCode !== null) throw new Error(`the agent ended without ${text}: ${lines.join(" | ")}`);
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          waiting.delete(wake);
          resolve();
        };
        waiting.add(wake);
        child.once("close", wake);
      });
    }
  };
  return { child, lines, printed };
}

export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

const order = (number: number) => ["charge", { eur: 19 + (number % 7) * 10, order: number }] as const;

async function runToEnd(program: string, store: string, session: string, script: Script): Promise<void> {
  const { child } = startAgent(program, store, session, script);
  await once(child, "close");
}

export async function fillStore(folder: string, program: string): Promise<string> {
  const store = join(folder, "store.db");
  await fillGoal(store, folder);
  const goal = "checkout";
  const look = (customer: string) => ["look_up", { customer }] as const;
  const mail = (to: string) => ["send_mail", { template: "receipt", to }] as const;
  await runToEnd(program, store, "orders-march", {
    title: "Charge the open orders of March",
    goal,
    budget: 1,
    calls: [
      look("c-17"),
      order(4701),
      order(4702),
      mail("ann@example.com"),
      order(4703),
      look("c-18"),
      order(4704),
      mail("bo@example.com"),
    ],
  });
  await runToEnd(program, store, "orders-april", {
    title: "Charge the open orders of April",
    goal,
    calls: [order(4711), order(4712)],
    doubt: true,
  });
  await runToEnd(program, store, "refund-4650", {
    title: "Refund order 4650",
    calls: [look("c-9"), ["refund", { eur: 240, order: 4650, reason: "damaged" }]],
  });
  await runToEnd(program, store, "newsletter", {
    title: "Send the newsletter",
    budget: 0.012,
    calls: [mail("list-1@example.com"), mail("list-2@example.com"), mail("list-3@example.com")],
  });
  for (const customer of ["c-3", "c-5", "c-8"])
    await runToEnd(program, store, `audit-${customer}`, {
      title: `Audit of ${customer}`,
      calls: [look(customer)],
    });
  const crashing = {
    title: "Charge the open orders of May",
    goal,
    hang: true,
    calls: [look("c-40"), order(4801), order(4802)],
  };
  for (const calls of [crashing.calls.slice(0, 2), crashing.calls]) {
    const agent = startAgent(program, store, "orders-may", { ...crashing, calls });
    await agent.printed(`executing ${JSON.stringify(calls.at(-1)?.[1])}`);
    await kill(agent.child);
    if (calls.length === 2) await settle(store, "orders-may");
  }
  return store;
}

async function settle(store: string, session: string): Promise<void> {
  const holdfast = await open(store);
  const { calls } = await holdfast.sessions.get(session);
  const open_ = calls.find(({ status }) => status === "issued");
  if (open_)
    await holdfast.calls.resolve(
      { session, callId: open_.callId },
      { outcome: "landed", result: { ok: true }, by: "ann", why: "seen in the bank's list" },
    );
  await holdfast.close();
}

/** Acts in ann's name that a pull brought: nobody has confirmed them. */
async function pullActs(goal: Goal, root: string): Promise<void> {
  const options = { auto: false, human: "ann", onEdit: () => undefined, pulled: "review" } as const;
  const folder = await projectGoal(goal, options);
  await folder.sync();
  const at = Date.now();
  const by = { name: "ann", role: "human" } as const;
  const blocker = "B-002";
  const ref = (item: string) => ({ [item]: goal.state.names.get(item) ?? "" });
  const made = { type: "constraint", date: "2026-01-02", reversible: true, files: [], alternatives: [] };
  const decision = {
    id: "D-002",
    context: "speed",
    decision: "Ship without tests",
    reason: "the launch is near",
    supersedes: "D-001",
  };
  const acts: Parameters<typeof forge>[0][] = [
    {
      type: "blocker.resolved",
      refs: ref(blocker),
      data: { by, blocker, resolution: "shop@example.com sends them" },
    },
    { type: "decision.made", refs: ref("D-001"), data: { by, ...made, ...decision } },
  ];
  const entries = acts.map((act, c) => forge({ ...act, at, t: at, c }));
  plant({ root }, entries);
  await folder.sync();
  await folder.close();
}

export async function fillGoal(store: string, root: string): Promise<void> {
  const holdfast = await open(store);
  const by = { name: "ann", role: "human" } as const;
  const goal = await holdfast.goal("checkout", {
    statement: "Customers can pay by card and get a receipt within a minute.",
    title: "Checkout",
    phases: ["Payments", "Receipts", "Launch"],
    by,
    root,
  });
  const titles = [
    "Charge a card once",
    "Retry with the same key",
    "Refund within 14 days",
    "Mail the receipt",
    "Show the receipt in the shop",
    "Ask the bank about late answers",
  ];
  const phases = [1, 1, 1, 2, 2, 1];
  await goal.addTasks({ tasks: titles.map((title, index) => ({ title, phase: phases[index] ?? 1 })) });
  const agent = { name: "claude-7", role: "worker" } as const;
  await goal.claim("T-001", { by: agent });
  await goal.submit({ task: "T-001", by: agent, summary: "One charge per order, also after a kill" });
  await goal.verify({ task: "T-001", accept: true, by });
  await goal.claim("T-002", { by: agent });
  const other = { name: "codex-2", role: "worker" } as const;
  await goal.claim("T-006", { by: other });
  await goal.submit({ task: "T-006", by: other, summary: "They answer within a minute" });
  await goal.decide({
    decision: "Charge through the ledger, never directly",
    context: "Two processes charged order 4711 in February",
    reason: "A crash between the charge and our record must not charge again.",
    type: "architecture",
    alternatives: [{ option: "a unique index on orders", whyNot: "the bank does not know our index" }],
  });
  await goal.assume({ text: "The bank answers a repeated key with the first charge" });
  const slow = await goal.assume({ text: "The bank answers within ten seconds" });
  await goal.settle({ assumption: slow, status: "refuted", evidence: "30 s on the night of March 3" });
  const blocked = { tasks: ["T-003"], phases: [3] };
  await goal.block({ description: "The bank's sandbox refuses refunds", affects: blocked });
  await goal.block({ description: "No address to send receipts from", affects: ["T-004", "T-005"] });
  await pullActs(goal, root);
  await holdfast.close();
}
