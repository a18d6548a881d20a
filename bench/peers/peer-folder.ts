/**
 * The peers of `agent.ts`. They are not dependencies of this project: they are installed into the folder that
 * `HOLDFAST_PEERS` names, or into one that is deleted after the run.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { Scratch } from "../scratch.ts";

const PEERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  dbos: { "@dbos-inc/dbos-sdk": "5.3.0" },
  openworkflow: { openworkflow: "0.10.1", postgres: "3.4.9" },
  "langgraph sqlite": {
    "@langchain/langgraph-checkpoint-sqlite": "1.0.4",
    "@langchain/langgraph-checkpoint": "1.1.5",
    "@langchain/core": "1.2.13",
  },
  "langgraph postgres": {
    "@langchain/langgraph-checkpoint-postgres": "1.0.5",
    "@langchain/langgraph-checkpoint": "1.1.5",
    "@langchain/core": "1.2.13",
  },
};

/** Installs the peers of these sides, unless they are there. Returns their folder. */
export function installPeers(scratch: Scratch, sides: readonly string[]): string {
  const folder = resolve(process.env["HOLDFAST_PEERS"] ?? join(scratch.path, "peers"));
  const wanted = Object.assign({}, ...sides.map((side) => PEERS[side] ?? {})) as Record<string, string>;
  const missing = Object.entries(wanted).filter(
    ([name]) => !existsSync(join(folder, "node_modules", name, "package.json")),
  );
  if (missing.length === 0) return folder;
  mkdirSync(folder, { recursive: true });
  const manifest = join(folder, "package.json");
  if (!existsSync(manifest)) writeFileSync(manifest, JSON.stringify({ private: true }));
  const versions = missing.map(([name, version]) => `${name}@${version}`);
  console.error(`installing ${versions.join(" ")} into ${folder}: this takes minutes`);
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--prefix", folder, ...versions], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  return folder;
}

async function load<Module>(folder: string, name: string): Promise<Module> {
  const require = createRequire(join(folder, "package.json"));
  return (await import(pathToFileURL(require.resolve(name)).href)) as Module;
}

/** The part of DBOS that is used here. */
interface Dbos {
  setConfig(config: Readonly<Record<string, unknown>>): void;
  registerWorkflow<Args extends unknown[], Result>(
    workflow: (...args: Args) => Promise<Result>,
    options: { name: string },
  ): (...args: Args) => Promise<Result>;
  runStep<Result>(step: () => Promise<Result>, options: { name: string }): Promise<Result>;
  launch(): Promise<void>;
  shutdown(): Promise<void>;
}

export function dbosIn(folder: string): Promise<{ DBOS: Dbos }> {
  return load(folder, "@dbos-inc/dbos-sdk");
}

/** The part of OpenWorkflow that is used here. */
interface OpenWorkflow {
  defineWorkflow(
    spec: { name: string },
    run: (context: { input: { id: string }; step: Step }) => Promise<unknown>,
  ): { run(input: { id: string }): Promise<{ workflowRun: { id: string } }> };
  newWorker(options: { concurrency: number }): { tick(): Promise<number> };
}

interface Step {
  run<Result>(spec: { name: string }, step: () => Promise<Result>): Promise<Result>;
}

interface OpenWorkflowBackend {
  completeWorkflowRun(params: { workflowRunId: string }): Promise<unknown>;
  stop(): Promise<void>;
}

export async function openWorkflowIn(folder: string) {
  const { OpenWorkflow } = await load<{
    OpenWorkflow: new (options: { backend: OpenWorkflowBackend }) => OpenWorkflow;
  }>(folder, "openworkflow");
  const { BackendPostgres } = await load<{
    BackendPostgres: { connect(url: string, options: { schema: string }): Promise<OpenWorkflowBackend> };
  }>(folder, "openworkflow/postgres");
  return { OpenWorkflow, BackendPostgres };
}

type Saver = BaseCheckpointSaver & {
  readonly db?: { close(): void };
  setup?(): Promise<void>;
  end?(): Promise<void>;
};

/** LangGraph's own saver on a file or a database. */
export async function openPeerSaver(folder: string, store: "sqlite" | "postgres", place: string) {
  const module = await load<Record<string, { fromConnString(place: string): Saver }>>(
    folder,
    `@langchain/langgraph-checkpoint-${store}`,
  );
  const saver = module[store === "sqlite" ? "SqliteSaver" : "PostgresSaver"]?.fromConnString(place) as Saver;
  if (store === "postgres") await saver.setup?.();
  return { saver, close: () => (store === "sqlite" ? saver.db?.close() : saver.end?.()) };
}
