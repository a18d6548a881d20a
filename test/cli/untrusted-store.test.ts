// A store that another user, every user or a commit may have written is not opened, by no surface.

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectPlace } from "../../src/project-place.ts";
import { indexHas, refuseUntrusted } from "../../src/project-trust.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

const FACT = ["fact", "secret", "sk-live-123", "--source", "a test"];
const NOBODY = 65534;
const isRoot = process.getuid?.() === 0;

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());

async function projectWithStore(): Promise<{ project: string; home: string }> {
  const project = line.newProject();
  rmSync(join(project, ".git"), { recursive: true });
  execFileSync("git", ["init", "-q"], { cwd: project });
  await runInside(project, ["init", "--agent", "none"]);
  await runInside(project, ["goal", "new", "checkout", "Ship it"]);
  return { project, home: join(project, ".holdfast") };
}

const git = (project: string, ...args: string[]) =>
  execFileSync("git", ["-c", "user.name=m", "-c", "user.email=m@x", ...args], { cwd: project });

/** Every surface refuses: a page, a write, a hook. The hook tells the agent, in constant words. */
async function expectRefused(project: string, why: string, hint: string): Promise<void> {
  for (const args of [["goal", "list"], ["next"], FACT, ["init"]]) {
    const { code, out, err } = await runInside(project, args);
    expect([code, out], args.join(" ")).toEqual([4, ""]);
    expect(err).toContain(why);
    expect(err).toContain(hint);
  }
  const input = JSON.stringify({ cwd: project, session_id: "a", source: "startup" });
  const hook = await line.run(["hook", "claude", "session-start"], { cwd: project, input });
  expect(hook.code).toBe(0);
  expect(hook.out).toContain("the store of this project was not opened");
  expect(hook.out).not.toContain("Ship it");
  expect(existsSync(join(project, ".holdfast/hooks")), "nothing was written there").toBe(false);
}

describe("refused", () => {
  test("a store that came with a commit, under any spelling of its name", async () => {
    const { project, home } = await projectWithStore();
    git(project, "add", "-f", ".holdfast/store.db");
    await expectRefused(project, "git tracks it", "git rm -r --cached .holdfast");
    git(project, "rm", "-q", "-r", "--cached", ".holdfast");
    expect((await runInside(project, ["next"])).code, "untracked again").toBe(0);
    rmSync(home, { recursive: true });
    symlinkSync("/tmp", home);
    git(project, "add", "-f", ".holdfast");
    expect((await runInside(project, ["next"])).err, "a link").toContain("git tracks it");
  });

  test("a committed store that a committed configuration names", async () => {
    const { project, home } = await projectWithStore();
    cpSync(home, join(project, "state"), { recursive: true });
    rmSync(home, { recursive: true });
    writeFileSync(join(project, "holdfast.config.json"), JSON.stringify({ store: "./state" }));
    expect((await runInside(project, ["next"])).code, "an own one is used").toBe(0);
    git(project, "add", "-f", "state/store.db");
    expect((await runInside(project, ["next"])).err).toContain("git rm -r --cached state");
  });

  test("a link in the place of the hooks' folder, which a hook would write through", async () => {
    const { project, home } = await projectWithStore();
    const outside = line.newProject();
    rmSync(join(home, "hooks"), { recursive: true, force: true });
    symlinkSync(outside, join(home, "hooks"));
    for (const args of [["next"], FACT]) {
      const { code, err } = await runInside(project, args);
      expect(code).toBe(4);
      expect(err).toContain("hooks: it is a link, and hooks write to this folder");
      expect(err).toContain(`rm ${join(home, "hooks")}`);
    }
    const input = JSON.stringify({ cwd: project, session_id: "a", source: "startup" });
    const hook = await line.run(["hook", "claude", "session-start"], { cwd: project, input });
    expect(hook.out).toContain("the store of this project was not opened");
    expect(readdirSync(outside)).toEqual([".git"]);
  });

  test("a folder that every user may write", async () => {
    const { project, home } = await projectWithStore();
    chmodSync(home, 0o777);
    await expectRefused(project, "every user of this machine can write it", `chmod -R o-w ${home}`);
    chmodSync(home, 0o700);
    chmodSync(join(home, "store.db"), 0o666);
    await expectRefused(project, "store.db: every user of this machine can write it", "chmod -R o-w");
  });

  test.runIf(isRoot)("a folder of another user above the working folder", async () => {
    const shared = line.newProject();
    rmSync(join(shared, ".git"), { recursive: true });
    const { home } = await projectWithStore();
    cpSync(home, join(shared, ".holdfast"), { recursive: true });
    for (const path of [".holdfast", ".holdfast/store.db"]) chownSync(join(shared, path), NOBODY, NOBODY);
    const victim = join(shared, "victim");
    mkdirSync(victim);
    const why = `it belongs to user ${NOBODY}, and you are user 0`;
    const refused = await runInside(victim, FACT);
    expect(refused.err).toContain(why);
    expect(refused.err).toContain(`HOLDFAST_TRUST=${shared}`);
    const env = { HOLDFAST_TRUST: `/elsewhere:${shared}` };
    expect((await runInside(victim, ["goal", "list"], env)).out).toContain("checkout");
    const other = await runInside(victim, ["next"], { HOLDFAST_TRUST: `${shared}x` });
    expect(other.err).toContain(why);
  });
});

test.runIf(isRoot)(
  "root in a container believes the owner of the folder it works in, and nobody else",
  async () => {
    const { project, home } = await projectWithStore();
    chownSync(home, NOBODY, NOBODY);
    const trust = (isInContainer: boolean) => () =>
      refuseUntrusted(projectPlace(project), project, {
        uid: 0,
        env: {},
        isInContainer: () => isInContainer,
      });
    expect(trust(true), "the working folder is root's").toThrow("it belongs to user");
    chownSync(project, NOBODY, NOBODY);
    expect(trust(true)).not.toThrow();
    expect(trust(false)).toThrow("it belongs to user");
  },
);

test("root's files are believed by every user, other users' files are not", async () => {
  const { project, home } = await projectWithStore();
  const owner = process.getuid?.() ?? 0;
  const as = (uid: number) => () =>
    refuseUntrusted(projectPlace(project), project, { uid, env: {}, isInContainer: () => true });
  expect(as(owner)).not.toThrow();
  if (owner === 0) expect(as(NOBODY)).not.toThrow();
  else expect(as(NOBODY)).toThrow(`${home}: it belongs to user ${owner}`);
});

describe("the search for a store", () => {
  test("ends at the root of a submodule", () => {
    const outer = line.newProject();
    mkdirSync(join(outer, ".holdfast"));
    const inner = join(outer, "inner/deep");
    mkdirSync(inner, { recursive: true });
    mkdirSync(join(outer, ".git/modules/inner"), { recursive: true });
    writeFileSync(join(outer, "inner/.git"), "gitdir: ../.git/modules/inner\n");
    expect(projectPlace(inner).home).toBe(join(inner, ".holdfast"));
  });

  test("leads a worktree to the folder of its repository, and a forged or copied .git file nowhere", () => {
    const main = realpathSync(line.newProject());
    rmSync(join(main, ".git"), { recursive: true });
    execFileSync("git", ["init", "-q"], { cwd: main });
    git(main, "commit", "-q", "--allow-empty", "-m", "first");
    const other = realpathSync(line.newProject());
    const worktree = join(other, "tree");
    git(main, "worktree", "add", "-q", worktree);
    expect(projectPlace(worktree)).toMatchObject({ root: worktree, home: join(main, ".holdfast") });
    const entry = join(main, ".git/worktrees/tree");
    const evil = join(other, "evil");
    const put = (name: string, text: string): void => writeFileSync(join(evil, name), text);
    const forgeries = {
      "the file of a worktree, copied": () => cpSync(join(worktree, ".git"), join(evil, ".git")),
      "a link to that file": () => symlinkSync(join(worktree, ".git"), join(evil, ".git")),
      "the repository itself": () => put(".git", `gitdir: ${join(main, ".git")}\n`),
      "a folder of its own that names the repository": () => {
        put(".git", "gitdir: own\n");
        mkdirSync(join(evil, "own"));
        put("own/commondir", `${join(main, ".git")}\n`);
        put("own/gitdir", `${join(evil, ".git")}\n`);
      },
      "a link to the entry of a worktree": () => {
        put(".git", "gitdir: own\n");
        symlinkSync(entry, join(evil, "own"));
      },
    };
    for (const [name, make] of Object.entries(forgeries)) {
      mkdirSync(evil);
      make();
      expect(projectPlace(evil), name).toMatchObject({ root: evil, home: join(evil, ".holdfast") });
      rmSync(evil, { recursive: true });
    }
    // Git can be told to write the path back as a relative one.
    const back = readFileSync(join(entry, "gitdir"), "utf8").trim();
    writeFileSync(join(entry, "gitdir"), `${relative(entry, back)}\n`);
    expect(projectPlace(worktree).home).toBe(join(main, ".holdfast"));
  });

  test("ends at the home folder", () => {
    const above = line.newProject();
    const work = join(above, "home/ann/work");
    mkdirSync(work, { recursive: true });
    mkdirSync(join(above, ".holdfast"));
    const before = process.env["HOME"];
    process.env["HOME"] = join(above, "home/ann");
    try {
      expect(projectPlace(work)).toMatchObject({ root: work, home: join(work, ".holdfast"), index: null });
    } finally {
      if (before === undefined) delete process.env["HOME"];
      else process.env["HOME"] = before;
    }
  });
});

test("a file in the place of the hooks' folder keeps nobody from reading and writing", async () => {
  const { project, home } = await projectWithStore();
  rmSync(join(home, "hooks"), { recursive: true, force: true });
  writeFileSync(join(home, "hooks"), "x");
  for (const args of [["status"], ["doctor"], FACT]) {
    const { code, err } = await runInside(project, args);
    expect(code, `${args[0]}: ${err}`).toBe(0);
  }
});

describe("the index of git", () => {
  /** An index that git itself wrote, with many names around ours. */
  function indexOf(format: number, names: readonly string[]): Buffer {
    const project = line.newProject();
    rmSync(join(project, ".git"), { recursive: true });
    execFileSync("git", ["init", "-q"], { cwd: project });
    for (const name of names) {
      mkdirSync(join(project, name, ".."), { recursive: true });
      writeFileSync(join(project, name), "");
    }
    git(project, "-c", `index.version=${format}`, "add", "-f", "-A", ".");
    return execFileSync("cat", [join(project, ".git/index")]);
  }

  const others = Array.from({ length: 40 }, (_, n) => `.github/a${"x".repeat(n)}`);

  test.each([2, 4])("format %i: a tracked store is found, similar names are not", (format) => {
    const near = [...others, ".holdfas", ".holdfast-not/store.db", "sub/.holdfast/x", "z"];
    expect(indexHas(indexOf(format, near), ".holdfast")).toBe(false);
    expect(indexHas(indexOf(format, [...near, ".holdfast/store.db"]), ".holdfast")).toBe(true);
    expect(indexHas(indexOf(format, [...near, ".HOLDFAST/store.db"]), ".holdfast")).toBe(true);
    expect(indexHas(indexOf(format, near), join("sub", ".holdfast"))).toBe(true);
  });

  test("an index that ends too early is not taken for an answer", () => {
    const whole = indexOf(2, [...others, ".holdfast/store.db"]);
    expect(indexHas(whole.subarray(0, 500), ".holdfast")).toBeNull();
    expect(indexHas(Buffer.from("no index at all"), ".holdfast")).toBe(false);
  });
});

/** SQL that a committed or planted file may have in place of what Holdfast creates. */
const ENDLESS = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n)";
const HOSTILE_SCHEMAS = {
  "a view that never ends in place of a table": [
    "ALTER TABLE meta RENAME TO hidden",
    `CREATE VIEW meta AS ${ENDLESS} SELECT 'store' AS name, x AS value FROM n WHERE x < 0`,
  ],
  "a view in place of a pragma": [
    `CREATE VIEW pragma_user_version AS ${ENDLESS} SELECT x AS user_version FROM n WHERE x < 0`,
  ],
  "a trigger": ["CREATE TRIGGER t AFTER INSERT ON writes BEGIN DELETE FROM keys; END"],
  "a changed view": ["DROP VIEW goals", "CREATE VIEW goals AS SELECT 1 AS goal_id"],
};

test.each(Object.entries(HOSTILE_SCHEMAS))("a store with %s is refused before it is read", async (_, sql) => {
  const { project, home } = await projectWithStore();
  const database = await Connection.open(join(home, "store.db"), false);
  for (const each of sql) database.exec(each);
  await database.close();
  for (const command of ["brief", "next"]) {
    const { code, err } = await runInside(project, [command]);
    expect(code).toBe(1);
    expect(err).toContain("its tables, views or triggers are not exactly those that Holdfast creates");
  }
});

test("statistics of ANALYZE do not count as a change", async () => {
  const { project, home } = await projectWithStore();
  const database = await Connection.open(join(home, "store.db"), false);
  database.exec("ANALYZE");
  await database.close();
  expect((await runInside(project, ["next"])).code).toBe(0);
});

test("no connection may edit the schema as rows", async () => {
  const { home } = await projectWithStore();
  const database = await Connection.open(join(home, "store.db"), false);
  expect(() => database.exec("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema")).toThrow("may not be");
  await database.close();
});
