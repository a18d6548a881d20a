import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkFiles, hashFile } from "../../src/goal/index.ts";
import { sha256 } from "../../src/model/digest.ts";
import { storeSubjects } from "../subjects.ts";
import { Bench, codeOf, worker } from "./bench.ts";

describe("recorded files", () => {
  let home: string;
  let root: string;

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "holdfast-files-"));
    root = join(home, "root");
    await mkdir(join(root, "src"), { recursive: true });
    await writeFile(join(root, "src/a.ts"), "alpha");
    await writeFile(join(home, "secret"), "secret");
  });
  afterEach(() => rm(home, { recursive: true }));

  const verdict = async (path: string, hash: string | null): Promise<string> => {
    const { files } = await checkFiles(root, [{ path, hash }]);
    return `${files[0]?.verdict}${files[0]?.why ? `: ${files[0].why}` : ""}`;
  };

  test("are OK, DRIFTED or MISSING, one by one", async () => {
    expect(await verdict("src/a.ts", sha256("alpha"))).toBe("OK");
    expect(await verdict("src/a.ts", sha256("beta"))).toBe("DRIFTED");
    expect(await verdict("src/b.ts", sha256("alpha"))).toBe("MISSING");
    expect(await verdict("src/a.ts/b", sha256("alpha"))).toBe("MISSING");
    expect(await verdict("src/b.ts", null)).toBe("OK");
    expect(await verdict("src/a.ts", null)).toBe("DRIFTED: it was deleted and is there again");
    expect(await verdict("src", sha256("alpha"))).toBe("DRIFTED: it is not a file");
  });

  test.each(["../secret", "/etc/hostname", "src/../../secret", "C:/x", "src\\..\\..\\secret", "a\0b", ""])(
    "a path that leads outside is never opened: %j",
    async (path) => {
      expect(await verdict(path, sha256("secret"))).toBe("DRIFTED: its path leads outside the root");
      expect(await codeOf(hashFile(root, path))).toBe("INPUT_INVALID");
    },
  );

  test("a link that leads outside is never followed, one that stays inside is", async () => {
    await symlink(join(home, "secret"), join(root, "out"));
    await symlink("..", join(root, "up"));
    await symlink("src/a.ts", join(root, "in"));
    await symlink("loop", join(root, "loop"));
    expect(await verdict("out", sha256("secret"))).toBe("DRIFTED: a link leads outside the root");
    expect(await verdict("up/secret", sha256("secret"))).toBe("DRIFTED: a link leads outside the root");
    expect(await verdict("in", sha256("alpha"))).toBe("OK");
    expect(await verdict("loop", sha256("alpha"))).toBe("DRIFTED: its links go in a circle");
    expect(await codeOf(hashFile(root, "out"))).toBe("INPUT_INVALID");
  });

  test("a thousand files are checked in one go, in their order", async () => {
    const recorded = Array.from({ length: 1_000 }, (_, index) => ({ path: `f${index}`, hash: sha256("x") }));
    await writeFile(join(root, "f500"), "x");
    const report = await checkFiles(root, recorded);
    expect(report.files.map(({ path }) => path)).toEqual(recorded.map(({ path }) => path));
    expect(report.files.filter(({ verdict: each }) => each === "OK")).toMatchObject([{ path: "f500" }]);
    expect(report.isOk).toBe(false);
  });

  test("with a budget: the latest first, no more than it allows, and no large ones", async () => {
    await writeFile(join(root, "large"), Buffer.alloc(5 << 20));
    const at = (path: string, modifiedAt: number): object => ({ path, hash: sha256("alpha"), modifiedAt });
    const recorded = [at("src/b.ts", 1), at("src/a.ts", 2), at("large", 3)] as {
      path: string;
      hash: string;
    }[];
    const paths = async (files: number, ms: number): Promise<string[]> =>
      (await checkFiles(root, recorded, { files, ms })).files.map(({ path }) => path);
    expect(await paths(9, 60_000)).toEqual(["src/a.ts", "src/b.ts"]);
    expect(await paths(2, 60_000)).toEqual(["src/a.ts"]);
    expect(await paths(9, -1)).toEqual([]);
    expect((await checkFiles(root, recorded)).files.map(({ verdict: each }) => each)).toEqual([
      "MISSING",
      "OK",
      "DRIFTED",
    ]);
  });

  test.each(storeSubjects())("a goal on $name hashes evidence itself and notices drift", async (subject) => {
    const bench = await Bench.open(subject);
    const goal = await bench.goal({ phases: ["one"], tasks: [{ title: "a" }], root });
    const claim = await goal.claim("T-001", { by: worker });
    expect(await codeOf(claim.submit({ files: ["src/nope.ts"] }))).toBe("INPUT_INVALID");
    await claim.submit({ files: ["src/a.ts", { path: "src/old.ts", hash: null }] });
    await goal.recordFiles({ files: [{ path: "src/a.ts", act: "examined" }] });
    expect(goal.state.files.get("src/a.ts")).toMatchObject({ hash: sha256("alpha"), task: "T-001" });
    expect((await goal.checkFiles()).isOk).toBe(true);
    await writeFile(join(root, "src/a.ts"), "changed by hand");
    const report = await goal.checkFiles();
    expect(report).toMatchObject({ isOk: false, files: [{ verdict: "DRIFTED" }, { verdict: "OK" }] });
    const text = goal.briefing({ files: report.files });
    expect(text).toContain("DRIFT src/a.ts DRIFTED: look before you rely on it");
    const homeless = await bench.goal();
    await expect(async () => homeless.checkFiles()).rejects.toThrow("no root folder is set");
    await bench.dispose();
    await subject.dispose();
  });
});
