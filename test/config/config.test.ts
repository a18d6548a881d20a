// The configuration file reaches every surface, and a clone's file runs nothing that a person has not allowed.

import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { loadConfig, open, type PayloadCodec } from "../../src/index.ts";
import { CommandLine, type Ran } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";

let line: CommandLine;
let project: string;
/** Records of trust go there. */
let machine: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(() => {
  project = line.newProject();
  machine = line.newProject();
});

const run = (...args: string[]): Promise<Ran> => runInside(project, args, { XDG_CONFIG_HOME: machine });
const write = (name: string, text: string): void => writeFileSync(join(project, name), text);

/** Writes a mark when it runs, and says where the store is. */
const CODE = `
import { writeFileSync } from "node:fs";
writeFileSync(new URL("./ran", import.meta.url), "");
export default { store: "./data/state.db", namespace: "acme" };
`;
const hasRun = (): boolean => existsSync(join(project, "ran"));

const ROT: PayloadCodec = {
  name: "rot",
  encode: (text) => [...text].reverse().join(""),
  decode: (payload) => [...String(payload)].reverse().join(""),
};
const ROT_CONFIG = `
const reverse = (text) => [...String(text)].reverse().join("");
export default { store: "./state.db", codecs: [{ name: "rot", encode: reverse, decode: reverse }] };
`;

/** Runs `act` with the project as the working directory. */
async function inside<Result>(act: () => Promise<Result>): Promise<Result> {
  const before = process.cwd();
  process.chdir(project);
  try {
    return await act();
  } finally {
    process.chdir(before);
  }
}

describe("code", () => {
  test.each(["status", "calls", "session list", "doctor", "init --agent none", "supervise --once"])(
    "holdfast %s runs no code of a clone, and says which file",
    async (words) => {
      mkdirSync(join(project, ".holdfast"));
      write("holdfast.config.mjs", CODE);
      const { code, err } = await run(...words.split(" "));
      expect(code).toBe(4);
      expect(err).toMatch(/holdfast\.config\.mjs: not trusted on this machine[\s\S]*holdfast trust/);
      expect(hasRun()).toBe(false);
    },
  );

  test("the fast path of status runs no code of a clone either", async () => {
    write("holdfast.config.mjs", CODE);
    const { code, err } = await line.run(["status"], { cwd: project, env: { XDG_CONFIG_HOME: machine } });
    expect([code, hasRun()]).toEqual([4, false]);
    expect(err).toContain("not trusted");
  });

  test("a hook of a clone runs no code, says so in one line, and lets the agent work", async () => {
    await run("init", "--agent", "none");
    write("holdfast.config.mjs", CODE);
    const input = JSON.stringify({ cwd: project, session_id: "c1" });
    const options = { cwd: project, input, env: { XDG_CONFIG_HOME: machine } };
    const start = await line.run(["hook", "claude", "session-start"], options);
    const stop = await line.run(["hook", "claude", "stop"], options);
    expect([start.code, stop.code, hasRun()]).toEqual([0, 0, false]);
    expect(start.out).toContain("not trusted on this machine");
    expect(start.err.trim().split("\n")).toHaveLength(1);
  });

  test("it runs once a person trusts it, until it or a module beside it changes", async () => {
    write("holdfast.config.mjs", `import "./keys.mjs";${CODE}`);
    write("keys.mjs", "export default 1;");
    expect((await run("trust")).code).toBe(2);
    expect((await run("trust", "--yes")).out).toContain("keys.mjs");
    expect((await run("init", "--agent", "none")).code).toBe(0);
    expect(existsSync(join(project, "data/state.db"))).toBe(true);
    write("keys.mjs", "export default 2;");
    expect((await run("status")).err).toContain("not trusted");
    write("keys.mjs", "export default 1;");
    expect((await run("status")).code).toBe(0);
    expect((await run("trust", "--remove")).out).toContain("not trusted any more");
    expect((await run("status")).code).toBe(4);
  });

  test("the same file in another clone is not trusted", async () => {
    write("holdfast.config.mjs", CODE);
    await run("trust", "--yes");
    project = line.newProject();
    write("holdfast.config.mjs", CODE);
    expect((await run("status")).code).toBe(4);
  });

  test("HOLDFAST_CONFIG trusts the file that it names", async () => {
    write("holdfast.config.mjs", CODE);
    const env = { XDG_CONFIG_HOME: machine, HOLDFAST_CONFIG: "holdfast.config.mjs" };
    expect((await runInside(project, ["init", "--agent", "none"], env)).code).toBe(0);
    expect(hasRun()).toBe(true);
  });

  test("its codecs decode for the command line, what a program wrote with them", async () => {
    write("holdfast.config.mjs", ROT_CONFIG);
    const holdfast = await open(join(project, "state.db"), { codecs: [ROT] });
    const session = await holdfast.session("secret");
    await session.append({ role: "user", text: "the words" });
    await holdfast.close();
    await run("trust", "--yes");
    expect((await run("session", "log", "secret")).out).toContain("the words");
  });

  test("open() runs no code that it finds; loadConfig() does, and {} ignores it", async () => {
    write("holdfast.config.mjs", CODE);
    await inside(async () => {
      await expect(open()).rejects.toMatchObject({
        code: "CONFIG_UNTRUSTED",
        hint: expect.stringContaining("loadConfig"),
      });
      expect(hasRun()).toBe(false);
      const configured = await open(await loadConfig());
      expect(configured.journal.namespace).toBe("acme");
      await configured.close();
      const ignoring = await open({});
      expect(ignoring.address).toContain(".holdfast");
      await ignoring.close();
    });
    expect(existsSync(join(project, "data/state.db"))).toBe(true);
  });

  test("TypeScript runs where Node can, and elsewhere the error names the other formats", async () => {
    write("holdfast.config.ts", 'export default { namespace: "typed" as string };');
    const loaded = loadConfig(join(project, "holdfast.config.ts"));
    if ((process.features as { typescript?: unknown }).typescript)
      expect(await loaded).toEqual({ namespace: "typed" });
    else await expect(loaded).rejects.toMatchObject({ hint: expect.stringContaining(".mjs or .json") });
  });
});

describe("JSON", () => {
  test("is read without trust, by the command line and by open()", async () => {
    write("holdfast.config.json", '{ "store": "./data/state.db", "namespace": "acme" }');
    await run("init", "--agent", "none");
    await run("goal", "new", "g", "Ship it");
    expect((await run("status")).out).toContain("g");
    const namespaces = await inside(async () => {
      const holdfast = await open();
      const goal = await holdfast.goal("g");
      await holdfast.close();
      return [holdfast.journal.namespace, holdfast.address, goal.state.statement];
    });
    expect(namespaces).toEqual(["acme", expect.stringContaining("data/state.db"), "Ship it"]);
  });

  test.each([
    "postgres://evil.example.com/x",
    "/tmp/elsewhere.db",
    "file:../elsewhere.db",
    "../elsewhere.db",
    "./link/state.db",
  ])("needs trust for the store %s, outside the project", async (store) => {
    const outside = line.newProject();
    symlinkSync(outside, join(project, "link"));
    write("holdfast.config.json", JSON.stringify({ store }));
    expect((await run("status")).err).toContain("not trusted");
    await inside(() => expect(open()).rejects.toMatchObject({ code: "CONFIG_UNTRUSTED" }));
  });

  test.each([
    ['{ "stroe": "./x.db" }', "Did you mean store"],
    ['{ "namespace": "a b" }', "is not a valid name"],
    ['{ "retention": "soon" }', "retention is not a duration"],
    ['{ "codecs": [{ "name": "x" }] }', "codecs: an entry is not a codec"],
    ['{ "prices": { "m": { "input": "free" } } }', "prices"],
    ['{ "store": ', "not JSON"],
    ["[]", "takes an object"],
  ])("%s is refused and named", async (text, says) => {
    write("holdfast.config.json", text);
    const { code, err } = await run("status");
    expect(code).toBe(2);
    expect(err).toContain("holdfast.config.json");
    expect(err).toContain(says);
  });

  test("an option wins over the environment, the environment over the file", async () => {
    write("holdfast.config.json", '{ "namespace": "of-file" }');
    const namespaceWith = (env: Record<string, string>, options?: { namespace: string }): Promise<string> =>
      inside(async () => {
        for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
        const holdfast = await open(undefined, options);
        vi.unstubAllEnvs();
        await holdfast.close();
        return holdfast.journal.namespace;
      });
    expect(await namespaceWith({})).toBe("of-file");
    expect(await namespaceWith({ HOLDFAST_NAMESPACE: "of-env" })).toBe("of-env");
    expect(await namespaceWith({ HOLDFAST_NAMESPACE: "of-env" }, { namespace: "typed" })).toBe("typed");
  });

  test("its retention is the default condition of prune", async () => {
    write("holdfast.config.json", '{ "store": "./state.db", "retention": "30d" }');
    const old = Date.now() - 40 * 86_400_000;
    const holdfast = await open(join(project, "state.db"), { now: () => old });
    for (const id of ["ended", "idle"]) {
      const session = await holdfast.session(id);
      await session.append({ role: "user", text: "hello" });
      await session.close();
    }
    await holdfast.sessions.cancel("ended", { by: "ann", why: "not needed" });
    await holdfast.close();
    expect((await run("prune", "--yes", "--json")).out).toContain('"removed":["ended"]');
  });

  test("hooks brief from its store", async () => {
    write("holdfast.config.json", '{ "store": "./data/state.db", "namespace": "acme" }');
    await run("init", "--agent", "none");
    await run("goal", "new", "checkout", "Ship the checkout");
    mkdirSync(join(project, ".holdfast"), { recursive: true });
    const input = JSON.stringify({ cwd: project, session_id: "c1" });
    const { out } = await line.run(["hook", "claude", "session-start"], { cwd: project, input });
    expect(out).toContain("Ship the checkout");
    expect(readFileSync(join(project, ".planning/STATE.md"), "utf8")).toContain("checkout");
  });
});
