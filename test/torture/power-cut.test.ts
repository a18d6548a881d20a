import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Bundle, bundle, type Mutation } from "../../torture/bundle.ts";
import { hasStrace } from "../../torture/cases/system-calls.ts";
import { DURABILITY_PLANTS } from "../../torture/planted-bugs.ts";
import { Disk } from "../../torture/power-cut/disk.ts";
import {
  cutEverywhere,
  type PowerCutOptions,
  traceWriter,
  type WriterOptions,
} from "../../torture/power-cut/power-cut.ts";
import { killAll } from "../../torture/processes.ts";
import { scratch } from "../../torture/workshop.ts";

const LIMIT_MS = 180_000;
const IMAGES = 320;

describe.skipIf(!hasStrace())("a power cut (skipped without strace)", () => {
  let folder: string;
  let whole: Bundle;
  beforeAll(async () => {
    folder = mkdtempSync(join(scratch(), "holdfast-power-cut-"));
    whole = await bundle(make("whole"), [], ["writer", "opener"]);
  });
  afterAll(() => {
    killAll();
    rmSync(folder, { recursive: true, force: true });
  });

  function make(name: string): string {
    const made = join(folder, name);
    mkdirSync(made);
    return made;
  }

  async function cut(
    name: string,
    writer: Bundle,
    { failSyncs, ...options }: Partial<PowerCutOptions> & Pick<WriterOptions, "failSyncs">,
  ) {
    const root = make(`${name}-root`);
    const steps = await traceWriter(writer, root, { rounds: 2, payloadBytes: 5_000, failSyncs });
    const place = { root, scratch: make(`${name}-images`), bundle: whole };
    return cutEverywhere(steps, place, { seed: 4711, randoms: 3, limit: IMAGES, ...options });
  }

  test(`loses nothing that was acknowledged, in at least 300 images of the disk`, {
    timeout: LIMIT_MS,
  }, async () => {
    const { images, promises, violations } = await cut("whole", whole, {});
    expect(violations).toEqual([]);
    expect(images).toBeGreaterThanOrEqual(300);
    expect(promises).toBeGreaterThan(20);
  });

  test.for([1, 14, 16, 17])(
    "loses nothing if every sync from number %i on fails, the writer exits, and another resumes",
    { timeout: LIMIT_MS },
    async (from) => {
      const failSyncs = { call: "fsync", from } as const;
      const { promises, violations } = await cut(`failed-${from}`, whole, { failSyncs });
      expect(violations).toEqual([]);
      expect(promises).toBeGreaterThan(20);
    },
  );

  test.for(Object.entries(DURABILITY_PLANTS))(
    "shows a planted bug: %s",
    { timeout: LIMIT_MS },
    async ([name, mutations]) => {
      const id = name.replaceAll(/\W+/g, "-");
      const planted = await bundle(make(id), mutations as Mutation[], ["writer"]);
      const { violations } = await cut(`${id}-cut`, planted, { untilFound: true });
      expect(violations).not.toEqual([]);
    },
  );
});

describe("the model of a disk", () => {
  const data = Buffer.alloc(1_024, 7);
  const written = (): Disk => {
    const disk = new Disk("/d");
    disk.apply({ act: "create", path: "/d/f", folder: false });
    disk.apply({ act: "sync", path: "/d" });
    disk.apply({ act: "write", path: "/d/f", offset: 0, data });
    return disk;
  };

  test("an unsynced write may be there, be torn, or be gone", () => {
    const disk = written();
    const pending = disk.pending();
    expect(disk.image(pending, [false]).get("/d/f")).toHaveLength(0);
    expect(disk.image(pending, [true]).get("/d/f")).toEqual(data);
    const torn = disk.image(pending, [{ sectors: new Set([1]) }]).get("/d/f");
    expect(torn?.subarray(0, 512)).toEqual(Buffer.alloc(512));
    expect(torn?.subarray(512)).toEqual(data.subarray(512));
  });

  test("a synced write is there", () => {
    const disk = written();
    disk.apply({ act: "sync", path: "/d/f" });
    expect(disk.image(disk.pending(), []).get("/d/f")).toEqual(data);
  });

  test("writes before a failed sync stay uncertain, and later syncs settle only what follows", () => {
    const disk = written();
    disk.apply({ act: "failed sync", path: "/d/f" });
    disk.apply({ act: "write", path: "/d/f", offset: 512, data: Buffer.alloc(512, 9) });
    disk.apply({ act: "sync", path: "/d/f" });
    const pending = disk.pending();
    expect(pending).toHaveLength(1);
    const later = Buffer.alloc(512, 9);
    expect(disk.image(pending, [false]).get("/d/f")).toEqual(Buffer.concat([Buffer.alloc(512), later]));
    expect(disk.image(pending, [true]).get("/d/f")).toEqual(Buffer.concat([data.subarray(0, 512), later]));
    disk.apply({ act: "truncate", path: "/d/f", size: 0 });
    disk.apply({ act: "sync", path: "/d/f" });
    expect(disk.pending()).toEqual([]);
  });

  test("a file whose folder was not synced may be missing, however often it was synced itself", () => {
    const disk = new Disk("/d");
    disk.apply({ act: "create", path: "/d/f", folder: false });
    disk.apply({ act: "write", path: "/d/f", offset: 0, data });
    disk.apply({ act: "sync", path: "/d/f" });
    expect(disk.image(disk.pending(), [false]).has("/d/f")).toBe(false);
  });
});
