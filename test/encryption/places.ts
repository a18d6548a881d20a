// Stores whose every stored byte a test can read, and a store's worth of text that must not be among them.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import {
  aesGcm,
  DefiniteFailure,
  type Encryption,
  type Holdfast,
  open,
  type Store,
  tool,
} from "../../src/index.ts";
import { openFiles } from "../../src/stores/files/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { TestSchema } from "../stores/postgres/schema.ts";

export const KEY = Buffer.alloc(32, 1).toString("base64");
export const NEW_KEY = Buffer.alloc(32, 2).toString("hex");

/** Every text that a user wrote begins with it, and nothing else contains it. */
export const MARK = "zebra";

export interface Place {
  readonly name: string;
  readonly folder: string;
  readonly ring: string;
  store(): Promise<Store>;
  /** Every byte of the store's files or tables, read while it is open. */
  bytes(): Promise<string>;
  remove(): Promise<void>;
}

export const PLACES: readonly (() => Place)[] = [sqlitePlace, filesPlace, postgresPlace];

export function encryptionOf(
  place: Place,
  keys: Record<string, string> = { a: KEY },
  current?: string,
): Encryption {
  return aesGcm({ keys, ...(current !== undefined && { current }), ring: place.ring });
}

export async function opened(place: Place, encryption = encryptionOf(place)): Promise<Holdfast> {
  return open(undefined, { store: await place.store(), encryption });
}

function newFolder(): { folder: string; ring: string } {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-encrypted-"));
  mkdirSync(join(folder, "data"));
  return { folder, ring: join(folder, "keys") };
}

export function bytesBelow(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  return files
    .map(({ parentPath, name }) => `${name}\n${readFileSync(join(parentPath, name), "latin1")}`)
    .join("\n");
}

function sqlitePlace(): Place {
  const { folder, ring } = newFolder();
  return {
    name: "sqlite",
    folder,
    ring,
    store: () => openSqlite({ path: join(folder, "data", "store.db") }),
    bytes: async () => bytesBelow(join(folder, "data")),
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

function filesPlace(): Place {
  const { folder, ring } = newFolder();
  return {
    name: "files",
    folder,
    ring,
    store: () => openFiles({ path: join(folder, "data") }),
    bytes: async () => bytesBelow(join(folder, "data")),
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

function postgresPlace(): Place {
  const { folder, ring } = newFolder();
  const schema = new TestSchema();
  return {
    name: "postgres",
    folder,
    ring,
    store: () => schema.open({ pool: schema.pool }),
    bytes: () => everyTable(schema),
    remove: async () => {
      await schema.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function everyTable(schema: TestSchema): Promise<string> {
  const tables = await schema.query<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.tables
     WHERE table_schema = '${schema.name}' AND table_type = 'BASE TABLE'`,
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    for (const row of await schema.query(`SELECT * FROM $schema."${name}"`)) {
      const values = Object.values(row).map((value) =>
        Buffer.isBuffer(value) ? value.toString("latin1") : value,
      );
      texts.push(`${name} ${values.join(" ")}`);
    }
  }
  return texts.join("\n");
}

export const LARGE = `${MARK} result ${"large ".repeat(60_000)}`;

const lookUp = tool({
  name: `${MARK}-tool`,
  description: "Look something up",
  input: z.object({ what: z.string(), size: z.enum(["small", "large", "none"]) }),
  effect: "mutate",
  execute: ({ what, size }) => {
    if (size === "none") throw new DefiniteFailure(`${MARK} error: ${what} is refused`);
    return size === "large" ? LARGE : `${MARK} result of ${what}`;
  },
});

/** Writes text of every kind: messages, arguments, results, errors, titles, labels, and a whole goal. */
export async function fill(holdfast: Holdfast): Promise<{ upload: string }> {
  const title = `${MARK} title of the session`;
  const session = await holdfast.session("alpha", { title, metadata: { user: `${MARK}-user` } });
  const upload = await holdfast.putArtifact(Buffer.from(`${MARK} upload`));
  await session.append({ role: "user", text: `${MARK} message` }, { checkpoint: `${MARK} label` });
  await session.append({
    role: "user",
    blocks: [{ kind: "file", artifact: upload, mediaType: "text/plain" }],
  });
  for (const size of ["small", "large", "none"] as const) {
    await session.call({ callId: size, tool: lookUp, args: { what: `${MARK} argument`, size } });
  }
  const step = {
    id: "1",
    description: `${MARK} step`,
    status: "pending",
    postconditions: [],
    evidence: [],
  } as const;
  await session.setPlan({ steps: [step] });
  await session.close();
  const goal = await holdfast.goal("checkout", {
    statement: `${MARK} statement of the goal`,
    tasks: [{ title: `${MARK} task` }],
  });
  await goal.decide({
    decision: `${MARK} decision`,
    context: `${MARK} context`,
    reason: `${MARK} reason`,
    type: "technology",
  });
  await goal.fact({ key: "currency", value: `${MARK} fact`, source: `${MARK} source` });
  await goal.block({ description: `${MARK} blocker`, affects: { goal: true } });
  await goal.close();
  return { upload };
}
