// An old copy of a store is put back between two runs. Calls that ran since would run again, so the store is
// not opened for writing until a person accepts that.

import { execFile } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { isHoldfastError, open, tool } from "../../src/index.ts";
import { openStore } from "../../src/open-store.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";

const place = mkdtempSync(join(quickFolder(), "holdfast-restored-"));
afterAll(() => rmSync(place, { recursive: true }));

let folder: string;
let home: string;
beforeEach(() => {
  folder = mkdtempSync(join(place, "case-"));
  home = join(folder, "home");
  vi.stubEnv("XDG_STATE_HOME", home);
});
afterEach(() => vi.unstubAllEnvs());

const program = programFile(new URL("./programs/charger.ts", import.meta.url));

const execute = tool({
  name: "charge",
  description: "Charge a card",
  input: z.object({ order: z.string() }),
  effect: "mutate",
  execute: ({ order }) => {
    appendFileSync(join(folder, "world"), `${order}\n`);
    return "charged";
  },
});

/** Charges an order, and ends in this way: in a process of its own, unless the store is closed. */
async function charge(address: string, order: string, end: "close" | "exit" | "kill"): Promise<string> {
  if (end !== "close") {
    return new Promise((resolve) => {
      execFile(process.execPath, [program, address, order, end, join(folder, "world")], (_, out) =>
        resolve(out),
      );
    });
  }
  try {
    await using holdfast = await open(address);
    const session = await holdfast.session(`order-${order}`);
    await session.call({ callId: `pay-${order}`, tool: execute, args: { order } });
    return "charged";
  } catch (error) {
    return isHoldfastError(error) ? error.code : String(error);
  }
}

const charges = (): string[] =>
  existsSync(join(folder, "world")) ? readFileSync(join(folder, "world"), "utf8").trim().split("\n") : [];

/** Every part of a store at an address, without the record outside. */
function copy(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to);
  for (const name of ["s.db", "s.db-wal", "s.db-shm", "files"]) {
    if (existsSync(join(from, name))) cpSync(join(from, name), join(to, name), { recursive: true });
  }
}

function putBack(backup: string): void {
  for (const name of ["s.db", "s.db-wal", "s.db-shm", "files"])
    rmSync(join(folder, name), { recursive: true, force: true });
  cpSync(backup, folder, { recursive: true });
}

describe.each([
  ["sqlite", "s.db"],
  ["files", "files/"],
])("%s", (kind, name) => {
  const address = (): string => join(folder, name);
  const backup = (): string => join(folder, "backup");

  test.each(["close", "exit", "kill"] as const)("is noticed after a run that ends by %s", async (end) => {
    await charge(address(), "1", "close");
    copy(folder, backup());
    await charge(address(), "2", end);
    putBack(backup());
    expect(await charge(address(), "2", "close")).toContain("STORE_REWOUND");
    expect(charges(), "nothing is charged twice").toEqual(["1", "2"]);
    await expect(open(address())).rejects.toMatchObject({
      code: "STORE_REWOUND",
      message: expect.stringContaining("session/"),
      hint: expect.stringContaining("holdfast restore --accept"),
    });
  });

  test("a reader is told, and every call since is listed", async () => {
    await charge(address(), "1", "close");
    copy(folder, backup());
    await charge(address(), "2", "kill");
    putBack(backup());
    const store = await openStore(address(), { readOnly: true });
    const calls = store.rewind?.items.filter(({ kind: each }) => each === "call");
    expect(calls).toMatchObject([{ stream: "session/order-2", name: "charge" }]);
    expect(store.rewind?.isComplete).toBe(true);
    await store.close();
    const warned: unknown[] = [];
    const reader = await open(address(), { readOnly: true, warn: (error) => void warned.push(error) });
    expect((await reader.sessions.get("order-1")).calls).toHaveLength(1);
    expect(warned).toMatchObject([{ code: "STORE_REWOUND" }]);
    await reader.close();
  });

  test("a person can accept it; then the store works, and the next restore is noticed again", async () => {
    await charge(address(), "1", "close");
    copy(folder, backup());
    await charge(address(), "2", "close");
    putBack(backup());
    const store = await openStore(address(), { despiteRewind: true });
    await store.acceptRewind?.();
    await store.close();
    expect(await charge(address(), "3", "close")).toContain("charged");
    putBack(backup());
    expect(await charge(address(), "4", "close")).toContain("STORE_REWOUND");
  });

  test("a copy from which nothing was lost opens: same content, other place, moved folder", async () => {
    await charge(address(), "1", "close");
    copy(folder, backup());
    putBack(backup());
    expect(await charge(address(), "2", "close"), "nothing happened since").toContain("charged");
    const elsewhere = join(place, `copy-of-${kind}`);
    copy(backup(), elsewhere);
    expect(await charge(join(elsewhere, name), "3", "close"), "a copy lives its own life").toContain(
      "charged",
    );
    const moved = join(place, `moved-${kind}`);
    renameSync(elsewhere, moved);
    expect(await charge(join(moved, name), "4", "close")).toContain("charged");
    renameSync(moved, elsewhere);
    expect(await charge(join(elsewhere, name), "5", "close"), "moved back").toContain("charged");
  });

  test("a torn, foreign or lost record raises no alarm, nor does a removed session", async () => {
    await charge(address(), "1", "close");
    const records = join(home, "holdfast", "stores");
    const [record = ""] = (await import("node:fs")).readdirSync(records);
    const lines = readFileSync(join(records, record), "utf8");
    writeFileSync(join(records, record), `${lines}{"at":9,"epoch":7`);
    expect(await charge(address(), "2", "close")).toContain("charged");
    writeFileSync(join(records, record), `${lines}{"at":9,"epoch":"7","mark":1,"writes":[],"items":[]}\nx\n`);
    expect(await charge(address(), "3", "close")).toContain("charged");
    const holdfast = await open(address());
    await holdfast.sessions.erase("order-3");
    await holdfast.close();
    expect(readFileSync(join(records, record), "utf8"), "an erased name stays nowhere").not.toContain(
      "order-3",
    );
    expect(await charge(address(), "4", "close")).toContain("charged");
    rmSync(home, { recursive: true });
    expect(await charge(address(), "5", "close")).toContain("charged");
  });
});

test("a new store in the place of an old one is not taken for an older copy", async () => {
  const address = join(folder, "s.db");
  await charge(address, "1", "close");
  rmSync(address);
  expect(existsSync(`${address}-record`)).toBe(true);
  expect(await charge(address, "2", "close")).toContain("charged");
});

test("sqlite without a home: the record beside the file notices a restored file", async () => {
  const address = join(folder, "s.db");
  await charge(address, "1", "close");
  copy(folder, join(folder, "backup"));
  await charge(address, "2", "kill");
  rmSync(home, { recursive: true });
  putBack(join(folder, "backup"));
  expect(await charge(address, "2", "close")).toContain("STORE_REWOUND");
});
