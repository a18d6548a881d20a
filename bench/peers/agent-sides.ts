/**
 * The sides of `agent.ts`: the same scripted agent on Holdfast, on its peers, and as bare commits. Each side
 * runs in a process of its own, and obeys orders.
 *
 *     request   a chat server's: open the session, one prompt, one answer of 2 KB, close
 *     turn      an answer of 2 KB, one mutating tool with a result of 4 KB, the checkpoint
 *     seed      turns that are not measured
 *
 * A session lives as long as its process: the turns of one order follow those of the last. So the turns of a
 * durable workflow are steps of one workflow, which waits for its next order in memory.
 */

import { join } from "node:path";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { type BaseCheckpointSaver, uuid6 } from "@langchain/langgraph-checkpoint";
import pg from "pg";
import { type Holdfast, type Model, open, openPostgres, type Session, tool } from "../../src/index.ts";
import { openBare } from "../raw-database.ts";
import { anything } from "../schema.ts";
import { prose, random } from "../turns.ts";
import { dbosIn, openPeerSaver, openWorkflowIn } from "./peer-folder.ts";

const CONNECTIONS = 20;
const ANSWER = prose(random(1), 2_048);
const RESULT = prose(random(2), 4_096);

/** Runs `count` of them in the session of this name. */
type Act = (session: string, count: number) => Promise<unknown>;

export interface Side {
  readonly turn: Act;
  readonly request?: Act;
  /** Default: turns. */
  readonly seed?: Act;
  stop(): unknown;
}

export interface Place {
  /** Of a database of the server. */
  readonly url: string;
  /** Where the peers are installed. */
  readonly peers: string;
  readonly scratch: string;
}

/** Where a side keeps its data: a file in the scratch folder, or a schema on the server. */
export type Data = { readonly file: string } | { readonly schema: string; readonly database?: string };

export interface SideKind {
  start(place: Place): Promise<Side>;
  readonly data: Data;
}

// ---- Holdfast

function ours(holdfast: Holdfast): Side {
  let made = 0;
  const charge = tool({
    name: "charge",
    description: "Returns about 4 KB",
    input: anything,
    effect: "mutate",
    execute: () => RESULT,
  });
  const answers: Model = async () => ({ message: { text: ANSWER }, usage: { usd: 0.01 } });
  const calls: Model = async () => {
    made += 1;
    const call = { kind: "tool_call", id: `c${made}`, name: "charge", args: { made } } as const;
    return { message: { blocks: [{ kind: "text", text: ANSWER }, call] }, usage: { usd: 0.01 } };
  };
  const sessions = new Map<string, Session>();
  return {
    turn: async (id, count) => {
      const session = sessions.get(id) ?? (await holdfast.session(id));
      const prompt = sessions.has(id) ? {} : { prompt: "Go." };
      sessions.set(id, session);
      await session.run({ model: calls, tools: [charge], maxTurns: count, ...prompt });
    },
    request: async (id, count) => {
      for (let index = 0; index < count; index++) {
        made += 1;
        await holdfast.run(id, { model: answers, prompt: { id: `p${made}`, text: "Where is it?" } });
      }
    },
    stop: () => holdfast.close(),
  };
}

// ---- Durable workflows

/** The orders of one session's workflow. */
class Inbox {
  private readonly orders: { count: number; done(): void }[] = [];
  private wake = (): void => undefined;
  private isClosed = false;

  ask(count: number): Promise<void> {
    return new Promise((done) => {
      this.orders.push({ count, done });
      this.wake();
    });
  }

  close(): void {
    this.isClosed = true;
    this.wake();
  }

  /** Runs `turn` for each that was asked for, until the inbox is closed. */
  async work(turn: () => Promise<void>): Promise<void> {
    for (;;) {
      const order = this.orders.shift();
      if (order) {
        for (let index = 0; index < order.count; index++) await turn();
        order.done();
      } else if (this.isClosed) return;
      else {
        await new Promise<void>((wake) => {
          this.wake = wake;
        });
      }
    }
  }
}

/** `begin` starts the workflow of a session, which works off its inbox. */
class Workflows {
  private readonly inboxes = new Map<string, Inbox>();
  private readonly begin: (session: string) => Promise<unknown>;
  private readonly ended: Promise<unknown>[] = [];

  constructor(begin: (session: string) => Promise<unknown>) {
    this.begin = begin;
  }

  readonly turn: Act = (session, count) => {
    if (!this.inboxes.has(session)) {
      this.inboxes.set(session, new Inbox());
      this.ended.push(this.begin(session));
    }
    return this.of(session).ask(count);
  };

  of(session: string): Inbox {
    return this.inboxes.get(session) as Inbox;
  }

  async stop(): Promise<void> {
    for (const inbox of this.inboxes.values()) inbox.close();
    await Promise.all(this.ended);
  }
}

async function dbos({ url, peers }: Place): Promise<Side> {
  const { DBOS } = await dbosIn(peers);
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url.replace(/postgres$/, "dbos_bench"),
    systemDatabasePoolSize: CONNECTIONS,
    runAdminServer: false,
    logLevel: "error",
  });
  const step = (result: string, name: string) => DBOS.runStep(async () => result, { name });
  const session = DBOS.registerWorkflow(
    async (id: string): Promise<void> =>
      workflows.of(id).work(async () => {
        await step(ANSWER, "model");
        await step(RESULT, "tool");
      }),
    { name: "session" },
  );
  const workflows: Workflows = new Workflows((id) => session(id));
  const request = DBOS.registerWorkflow(async (_prompt: string) => step(ANSWER, "model"), {
    name: "request",
  });
  await DBOS.launch();
  return {
    turn: workflows.turn,
    request: async (_session, count) => {
      for (let index = 0; index < count; index++) await request("Where is it?");
    },
    stop: async () => {
      await workflows.stop();
      await DBOS.shutdown();
    },
  };
}

/** Its worker polls for runs. It is told of each one instead, so that no poll is measured. */
async function openWorkflow({ url, peers }: Place): Promise<Side> {
  const { OpenWorkflow, BackendPostgres } = await openWorkflowIn(peers);
  const backend = await BackendPostgres.connect(url, { schema: "openworkflow" });
  const ended = new Map<string, () => void>();
  const complete = backend.completeWorkflowRun.bind(backend);
  backend.completeWorkflowRun = async (params) => {
    const run = await complete(params);
    ended.get(params.workflowRunId)?.();
    return run;
  };
  const flows = new OpenWorkflow({ backend });
  const session = flows.defineWorkflow({ name: "session" }, async ({ input, step }) => {
    await workflows.of(input.id).work(async () => {
      await step.run({ name: "model" }, async () => ANSWER);
      await step.run({ name: "tool" }, async () => RESULT);
    });
  });
  const request = flows.defineWorkflow({ name: "request" }, ({ step }) =>
    step.run({ name: "model" }, async () => ANSWER),
  );
  const worker = flows.newWorker({ concurrency: 40 });
  const run = async (workflow: typeof request, input: { id: string }): Promise<void> => {
    const { workflowRun } = await workflow.run(input);
    const end = new Promise<void>((resolve) => ended.set(workflowRun.id, resolve));
    await worker.tick();
    await end;
  };
  const workflows: Workflows = new Workflows((id) => run(session, { id }));
  return {
    turn: workflows.turn,
    request: async (id, count) => {
      for (let index = 0; index < count; index++) await run(request, { id });
    },
    stop: async () => {
      await workflows.stop();
      await backend.stop();
    },
  };
}

// ---- LangGraph

function langgraph(saver: BaseCheckpointSaver, stop: () => unknown): Side {
  type Thread = { messages: BaseMessage[]; config: { configurable?: Record<string, unknown> }; step: number };
  const threads = new Map<string, Thread>();
  const threadOf = (id: string): Thread => {
    const config = { configurable: { thread_id: id, checkpoint_ns: "" } };
    const thread = threads.get(id) ?? { messages: [], config, step: 0 };
    threads.set(id, thread);
    return thread;
  };
  const called = (step: number) => {
    const call = { id: `call_${step}`, name: "charge", args: { step } };
    return new AIMessage({ id: `a${step}`, content: ANSWER, tool_calls: [call] });
  };
  const result = (step: number) =>
    new ToolMessage({ id: `t${step}`, content: RESULT, tool_call_id: `call_${step}` });
  const put = async (thread: Thread, message: BaseMessage): Promise<void> => {
    thread.messages = [...thread.messages, message];
    thread.step += 1;
    const { messages, step } = thread;
    const checkpoint = {
      v: 4,
      id: uuid6(0),
      ts: new Date().toISOString(),
      channel_values: { messages },
      channel_versions: { messages: step },
      versions_seen: { agent: { messages: step } },
    };
    const metadata = { source: "loop", step, parents: {} } as const;
    thread.config = await saver.put(thread.config, checkpoint, metadata, { messages: step });
  };
  return {
    turn: async (id, count) => {
      const thread = threadOf(id);
      for (let index = 0; index < count; index++) {
        await put(thread, called(thread.step));
        await put(thread, result(thread.step));
      }
    },
    // All at once: saving each of them would take hours, because every save stores all messages.
    seed: async (id, count) => {
      const thread = threadOf(id);
      for (let index = 0; index < count; index++) thread.messages.push(called(index), result(index));
    },
    stop,
  };
}

// ---- The floor: two synced commits of the same bytes

async function rawSqlite({ scratch }: Place): Promise<Side> {
  const database = await openBare(join(scratch, "raw.db"));
  database.exec("CREATE TABLE turns (id INTEGER PRIMARY KEY, value TEXT NOT NULL)");
  const insert = database.prepare("INSERT INTO turns (value) VALUES (?)");
  const act: Act = async (_session, count) => {
    for (let index = 0; index < count; index++) {
      insert.run(JSON.stringify({ text: ANSWER }));
      insert.run(JSON.stringify({ text: RESULT }));
    }
  };
  return { turn: act, request: act, stop: () => database.close() };
}

async function rawPostgres({ url }: Place): Promise<Side> {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  await pool.query(
    "CREATE SCHEMA floor; CREATE TABLE floor.turns (id serial PRIMARY KEY, value text NOT NULL)",
  );
  const text = "INSERT INTO floor.turns (value) VALUES ($1)";
  const act: Act = async (_session, count) => {
    const client = await pool.connect();
    for (let index = 0; index < count; index++) {
      await client.query({ name: "answer", text, values: [JSON.stringify({ text: ANSWER })] });
      await client.query({ name: "answer", text, values: [JSON.stringify({ text: RESULT })] });
    }
    client.release();
  };
  return { turn: act, request: act, stop: () => pool.end() };
}

export const SIDES = {
  "holdfast sqlite": {
    start: async ({ scratch }) => ours(await open(join(scratch, "ours.db"))),
    data: { file: "ours.db" },
  },
  "holdfast postgres": {
    start: async ({ url }) =>
      ours(await open(undefined, { store: await openPostgres({ url, maxConnections: CONNECTIONS }) })),
    data: { schema: "holdfast" },
  },
  dbos: { start: dbos, data: { schema: "dbos", database: "dbos_bench" } },
  openworkflow: { start: openWorkflow, data: { schema: "openworkflow" } },
  "langgraph sqlite": {
    start: async ({ peers, scratch }) => {
      const { saver, close } = await openPeerSaver(peers, "sqlite", join(scratch, "langgraph.db"));
      return langgraph(saver, close);
    },
    data: { file: "langgraph.db" },
  },
  "langgraph postgres": {
    start: async ({ url, peers }) => {
      const { saver, close } = await openPeerSaver(peers, "postgres", url);
      return langgraph(saver, close);
    },
    data: { schema: "public" },
  },
  "raw sqlite": { start: rawSqlite, data: { file: "raw.db" } },
  "raw postgres": { start: rawPostgres, data: { schema: "floor" } },
} as const satisfies Readonly<Record<string, SideKind>>;

export type SideName = keyof typeof SIDES;
