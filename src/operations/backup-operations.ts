/**
 * Operations on copies of the store: `backup` makes one while others write, and `restore` deals with one that
 * was put back.
 *
 *     nothing ──copy──▶ <file>.<pid>.new.db ──sync, open, check──▶ linked to its name ──▶ folder synced
 *
 * A crash leaves a file with that ending, which the next backup to the same name deletes. The name itself
 * never has a copy that was not checked, and is never overwritten.
 */

import { linkSync, readdirSync, renameSync, rmSync, statSync, unlinkSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import * as z from "zod";
import { cipherOf } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { streamId } from "../model/names.ts";
import { openStore } from "../open-store.ts";
import { syncFolder } from "../state-files/index.ts";
import type { MovedRow, Page, Rewind, Store } from "../store.ts";
import type { Context } from "./context.ts";
import { mutation, query } from "./operation.ts";
import { requireStore } from "./store-place.ts";

const text = z.string();

const lostCall = z.strictObject({
  namespace: text,
  session: text,
  callId: text,
  tool: text.nullable(),
  status: text.nullable(),
  at: text.nullable(),
});
type LostCall = z.input<typeof lostCall>;

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function refuseExisting(file: string): void {
  if (!exists(file)) return;
  throw new HoldfastError("STREAM_EXISTS", `${file}: it exists already`, {
    hint: "Name a new file or folder: a backup overwrites nothing.",
    data: { file },
  });
}

/** Deletes what backups to this name have left that were killed. */
function removeLeftovers(file: string): void {
  const folder = dirname(file);
  if (!exists(folder)) {
    throw new HoldfastError("INPUT_INVALID", `${folder}: there is no such folder`, {
      hint: "Make the folder of the backup first.",
      data: { folder },
    });
  }
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(`${basename(file)}.`)) continue;
    const pid = /^\.(\d+)\.new(\.db(-\w+)?)?$/.exec(name.slice(basename(file).length))?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    rmSync(join(folder, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** A hard link fails if the name is taken, which renaming a file does not. A folder has no links. */
function giveName(temporary: string, file: string): void {
  if (statSync(temporary).isDirectory()) {
    refuseExisting(file);
    renameSync(temporary, file);
    return;
  }
  try {
    linkSync(temporary, file);
    unlinkSync(temporary);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    refuseExisting(file);
    // The file system has no links.
    if (code !== "EPERM" && code !== "ENOTSUP" && code !== "ENOSYS") throw error;
    renameSync(temporary, file);
  }
}

async function checkCopy(address: string): Promise<void> {
  const copy = await openStore(address, { readOnly: true });
  try {
    const [problem] = await copy.check();
    if (!problem) return;
    const { invariant, where, what } = problem;
    throw new HoldfastError("STORE_CORRUPT", `the copy is damaged: ${invariant} ${where}: ${what}`, {
      hint: "Check the store itself: holdfast check. No backup was made.",
      data: { ...problem },
    });
  } finally {
    await copy.close();
  }
}

async function backUp(store: Store, file: string): Promise<number> {
  if (!store.backup) throw noBackup(store.address);
  refuseExisting(file);
  removeLeftovers(file);
  const isFolder = store.address.startsWith("files ");
  const temporary = `${file}.${process.pid}.new${isFolder ? "" : ".db"}`;
  try {
    await store.backup(temporary);
    await checkCopy(isFolder ? `${temporary}/` : temporary);
    for (const end of ["-wal", "-shm"]) rmSync(temporary + end, { force: true });
    const { size } = statSync(isFolder ? join(temporary, "journal.jsonl") : temporary);
    giveName(temporary, file);
    await syncFolder(dirname(file));
    return size;
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
}

function noBackup(address: string): HoldfastError {
  const isPostgres = address.startsWith("postgres ");
  const schema = address.slice(address.lastIndexOf(" ") + 1);
  return new HoldfastError("INPUT_INVALID", `${address}: this kind of store has backups of its own`, {
    hint: isPostgres
      ? `Use the server's tools: pg_dump --schema=${schema} -Fc, or its recovery (docs/guides/backup.md).`
      : "Copy it with its own tools, or write a portable file: holdfast export",
    data: { address },
  });
}

function notEncrypted(address: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${address}: no encryption is configured`, {
    hint: "Set `encryption: aesGcm({ keys, current })` in holdfast.config.ts (docs/guides/security.md).",
    data: { address },
  });
}

async function* rowsOf({ moving }: Store): AsyncGenerator<MovedRow> {
  let cursor: string | null = null;
  do {
    const page: Page<MovedRow> | undefined = await moving?.dump(cursor, ["item"]);
    yield* page?.rows ?? [];
    cursor = page?.cursor ?? null;
  } while (cursor !== null);
}

/** Calls whose intent the copy has and whose outcome it lacks, in every namespace. */
async function openCallsOf(store: Store): Promise<LostCall[]> {
  const calls: LostCall[] = [];
  for await (const row of rowsOf(store)) {
    if (row.of !== "item" || row.kind !== "call" || row.doneAt !== null) continue;
    const { namespace, stream, id, status, at } = row;
    const name = openName(store, row);
    calls.push({ namespace, session: streamId(stream), callId: id, tool: name, status, at: iso(at) });
  }
  return calls;
}

function callsSince({ items }: Rewind): LostCall[] {
  return items
    .filter(({ kind }) => kind === "call")
    .map(({ namespace, stream, id, name, status, at }) => {
      return { namespace, session: streamId(stream), callId: id, tool: name, status, at: iso(at) };
    });
}

/** Rows of a dump are as they are stored. */
function openName(
  store: Store,
  { kind, id, name, ...place }: Extract<MovedRow, { of: "item" }>,
): string | null {
  return name === null ? null : (cipherOf(store)?.openText(place, `${kind} ${id}`, name) ?? name);
}

const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());

async function accept(context: Context): Promise<void> {
  const store = await openStore(context.place.address, { mustExist: true, despiteRewind: true });
  try {
    await store.acceptRewind?.();
  } finally {
    await store.close();
  }
}

export const backupOperations = [
  query("backup", "Write a checked copy of the whole store to a new file, while others use the store", {
    who: "person",
    input: z.strictObject({ file: text }),
    result: z.strictObject({
      from: text,
      file: text,
      bytes: z.int(),
      /** In an encrypted store: the folder of its keys, which the backup leaves out. */
      keyRing: text.nullable(),
    }),
    async run(context, { file: named }) {
      const { store } = (await context.holdfast()).journal;
      const file = resolve(context.cwd, named);
      const keyRing = cipherOf(store)?.ring ?? null;
      return { from: store.address, file, bytes: await backUp(store, file), keyRing };
    },
  }),
  mutation("rekey", "Wrap the keys of an encrypted store by its current master key", {
    who: "person",
    input: z.strictObject({}),
    result: z.strictObject({ from: text, keyRing: text, keys: z.int(), rewrapped: z.int() }),
    async run(context) {
      const { store } = (await context.holdfast()).journal;
      const cipher = cipherOf(store);
      if (!cipher) throw notEncrypted(store.address);
      return { from: store.address, keyRing: cipher.ring, ...cipher.rewrap() };
    },
  }),
  mutation("restore", "Show what may have happened since a restored copy of the store, and accept it", {
    who: "person",
    vouches: ({ accept: isAccepted }) => isAccepted === true,
    /** Without `accept`, only shows it. */
    input: z.strictObject({ accept: z.boolean().optional() }),
    result: z.strictObject({
      address: text,
      rewound: z.boolean(),
      accepted: z.boolean(),
      /** When the last known write was made that this copy lacks. */
      lastWriteAt: text.nullable(),
      /** Whether `calls` has every call since. Otherwise the record does not reach back to this copy. */
      isComplete: z.boolean(),
      sessions: z.array(
        z.strictObject({
          namespace: text,
          stream: text,
          seq: z.int(),
          knownSeq: z.int(),
          at: text.nullable(),
        }),
      ),
      calls: z.array(lostCall),
      /** Calls without an outcome in this copy; each may have happened since. */
      open: z.array(lostCall),
    }),
    async run(context, { accept: isAccepted = false }) {
      requireStore(context.place);
      const { encryption } = context.place.config;
      const store = await openStore(context.place.address, { encryption, readOnly: true });
      try {
        const { address, rewind = null } = store;
        const found = {
          address,
          rewound: rewind !== null,
          lastWriteAt: iso(rewind?.lastWriteAt ?? null),
          isComplete: rewind?.isComplete ?? true,
          sessions: (rewind?.streams ?? []).map(({ namespace, stream, head, known, at }) => {
            return { namespace, stream, seq: head.seq, knownSeq: known.seq, at: iso(at) };
          }),
          calls: rewind ? callsSince(rewind) : [],
          open: rewind ? await openCallsOf(store) : [],
        };
        if (rewind && isAccepted) await accept(context);
        return { ...found, accepted: rewind !== null && isAccepted };
      } finally {
        await store.close();
      }
    },
  }),
];
