// A living process keeps the lock of a file; a dead one loses it, even if another process has its pid now.

import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { readFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isHoldfastError } from "../../src/model/errors.ts";
import { withFileLock } from "../../src/state-files/index.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-lock-"));
  path = join(folder, "state");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const file = () => `${path}.lock`;
/** Well below the minute after which the age of a lock decides. */
const AT_ONCE = { waitMs: 30_000 };
const LONG_AGO = 1_000_000;

function left(holder: object | string, isOld = false): void {
  writeFileSync(file(), typeof holder === "string" ? holder : JSON.stringify(holder));
  if (isOld) utimesSync(file(), LONG_AGO, LONG_AGO);
}

const got = () => withFileLock(path, async () => "got it", AT_ONCE);

async function refusal(): Promise<{ message: string; hint: string }> {
  try {
    await withFileLock(path, async () => undefined, { waitMs: 0 });
  } catch (error) {
    if (isHoldfastError(error, "FILE_LOCKED")) return { message: error.message, hint: error.hint ?? "" };
    throw error;
  }
  throw new Error("it was given");
}

/** The content of a lock that this process holds. */
async function written(): Promise<Record<string, unknown>> {
  return withFileLock(path, async () => JSON.parse(readFileSync(file(), "utf8")));
}

test("one holder at a time, and nothing is left", async () => {
  let inside = 0;
  const counts = await Promise.all(
    Array.from({ length: 5 }, () =>
      withFileLock(path, async ({ isHeld }) => {
        const count = ++inside;
        expect(await isHeld()).toBe(true);
        inside--;
        return count;
      }),
    ),
  );
  expect(counts).toEqual([1, 1, 1, 1, 1]);
  expect(existsSync(file())).toBe(false);
});

test("the lock names its holder from its first moment", async () => {
  const taking = { isDone: false };
  const seen: string[] = [];
  const look = async (): Promise<void> => {
    while (!taking.isDone) {
      const text = await readFile(file(), "utf8").catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return null;
        throw error;
      });
      if (text !== null) seen.push(text);
    }
  };
  const looking = [look(), look(), look()];
  for (let times = 0; times < 300 || seen.length === 0; times++)
    await withFileLock(path, async () => undefined);
  taking.isDone = true;
  await Promise.all(looking);
  expect(seen.length).toBeGreaterThan(0);
  expect(seen.filter((text) => !text.startsWith("{"))).toEqual([]);
  expect(readdirSync(folder)).toEqual([]);
});

test("an error names the holder, and says what to do if it is gone", async () => {
  left({ ...(await written()), token: "another" });
  const { message, hint } = await refusal();
  expect(message).toBe(`${path} is being written by pid ${process.pid} on ${hostname()}`);
  expect(hint).toContain(file());
});

test("a lock without a readable holder is held by another process", async () => {
  left("null");
  expect((await refusal()).message).toBe(`${path} is being written by another process`);
  left("null", true);
  expect(await got()).toBe("got it");
});

describe.runIf(process.platform === "linux")("where the system tells when a process began", () => {
  test("a reused pid does not keep the lock", async () => {
    left({ ...(await written()), started: "1" });
    expect(await got()).toBe("got it");
  });

  test("a living holder keeps the lock, however long it takes", async () => {
    left(await written(), true);
    await refusal();
    expect(existsSync(file())).toBe(true);
  });

  test.each(["pidNamespace", "boot"])(
    "a holder with another %s loses the lock by its age only",
    async (fact) => {
      const other = { ...(await written()), [fact]: "another", pid: 1 << 29 };
      left(other);
      await refusal();
      left(other, true);
      expect(await got()).toBe("got it");
    },
  );

  test("a holder of another time namespace with a used pid loses the lock by its age only", async () => {
    const other = { ...(await written()), timeNamespace: "another", started: "1" };
    left(other);
    await refusal();
    expect(existsSync(file())).toBe(true);
    left(other, true);
    expect(await got()).toBe("got it");
  });

  test("the lock names the process inside its pid namespace", async () => {
    expect(await written()).toMatchObject({ pidNamespace: readlinkSync("/proc/self/ns/pid") });
  });
});

describe("locks of earlier versions", () => {
  const old = (pid: number) => ({ host: hostname(), pid, token: "t" });

  test("no process has its pid", async () => {
    left(old(1 << 29));
    expect(await got()).toBe("got it");
  });

  test("a process has its pid: the age of the lock decides", async () => {
    left(old(process.pid));
    await refusal();
    left(old(process.pid), true);
    expect(await got()).toBe("got it");
  });
});
