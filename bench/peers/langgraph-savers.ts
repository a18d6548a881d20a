/**
 * The compared savers, each on a store of its own. The peers are not dependencies of this project (one of
 * them compiles for minutes). They come from the folder that `HOLDFAST_PEERS` names, or are installed into
 * a folder that is deleted after the run.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import pg from "pg";
import { open } from "../../src/index.ts";
import { HoldfastSaver } from "../../src/integrations/langgraph/index.ts";
import type { PostgresServer } from "../../test/stores/postgres/server.ts";
import { sizeOnDisk } from "../raw-database.ts";
import type { Scratch } from "../scratch.ts";

const PEERS = {
  "@langchain/langgraph-checkpoint-sqlite": "1.0.4",
  "@langchain/langgraph-checkpoint-postgres": "1.0.5",
  "@langchain/langgraph-checkpoint": "1.1.5",
  "@langchain/core": "1.2.13",
};

export interface OpenedSaver {
  readonly saver: BaseCheckpointSaver;
  close(): Promise<void> | void;
}

/** One kind of saver on one store. `open` makes a new saver each time, like a new process would. */
export interface Subject {
  readonly name: string;
  open(): Promise<OpenedSaver>;
  /** Bytes of its tables and indexes, without the log. */
  size(): Promise<number>;
}

export function ourSqlite(scratch: Scratch): Subject {
  const path = scratch.file("ours");
  return { name: "ours", open: () => openOurs(path), size: () => sizeOnDisk(path) };
}

export async function ourPostgres(server: PostgresServer, database: string): Promise<Subject> {
  const url = await freshDatabase(server, database);
  return { name: "ours", open: () => openOurs(url), size: () => sizeOfTables(url) };
}

async function openOurs(address: string): Promise<OpenedSaver> {
  const holdfast = await open(address);
  return { saver: new HoldfastSaver(holdfast), close: () => holdfast.close() };
}

export async function peerSqlite(folder: string, scratch: Scratch): Promise<Subject> {
  const { SqliteSaver } = await load<{
    SqliteSaver: { fromConnString(path: string): BaseCheckpointSaver & { db: { close(): void } } };
  }>(folder, "@langchain/langgraph-checkpoint-sqlite");
  const path = scratch.file("peer");
  return {
    name: "SqliteSaver",
    open: async () => {
      const saver = SqliteSaver.fromConnString(path);
      return { saver, close: () => saver.db.close() };
    },
    size: () => sizeOnDisk(path),
  };
}

export async function peerPostgres(
  folder: string,
  server: PostgresServer,
  database: string,
): Promise<Subject> {
  type Peer = BaseCheckpointSaver & { setup(): Promise<void>; end(): Promise<void> };
  const { PostgresSaver } = await load<{ PostgresSaver: { fromConnString(url: string): Peer } }>(
    folder,
    "@langchain/langgraph-checkpoint-postgres",
  );
  const url = await freshDatabase(server, database);
  return {
    name: "PostgresSaver",
    open: async () => {
      const saver = PostgresSaver.fromConnString(url);
      await saver.setup();
      return { saver, close: () => saver.end() };
    },
    size: () => sizeOfTables(url),
  };
}

/** The folder with the installed peers. */
export function peersFolder(scratch: Scratch): string {
  const folder = resolve(process.env["HOLDFAST_PEERS"] ?? join(scratch.path, "peers"));
  const installed = (name: string) => existsSync(join(folder, "node_modules", name, "package.json"));
  if (Object.keys(PEERS).every(installed)) return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
  const wanted = Object.entries(PEERS).map(([name, version]) => `${name}@${version}`);
  console.error(`installing ${wanted.join(" ")} into ${folder}: this takes minutes`);
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--prefix", folder, ...wanted], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  return folder;
}

async function load<Module>(folder: string, name: string): Promise<Module> {
  const require = createRequire(join(folder, "package.json"));
  return (await import(pathToFileURL(require.resolve(name)).href)) as Module;
}

async function freshDatabase(server: PostgresServer, name: string): Promise<string> {
  await query(server.url, `CREATE DATABASE ${name}`);
  return server.url.replace("/postgres?", `/${name}?`);
}

async function sizeOfTables(url: string): Promise<number> {
  const [row] = await query(
    url,
    `SELECT sum(pg_total_relation_size(c.oid)) AS bytes FROM pg_class c
       JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')`,
  );
  return Number(row?.["bytes"]);
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
