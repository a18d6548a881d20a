// A hook that cannot find its configured store reports it. A hook in a project without a store is silent.

import { expect, test } from "vitest";
import type { CommandLine } from "../cli/command-line.ts";
import { type HookedProject, inHookedProjects } from "./hooked-project.ts";

let project: HookedProject;
let line: CommandLine;
inHookedProjects((made, its) => {
  project = made;
  line = its;
});

test("a missing store of HOLDFAST_STORE is reported on stderr and in the log", async () => {
  const env = { HOLDFAST_STORE: "/nowhere/at/all/store.db" };
  const { code, out, err } = await project.hook("claude", "session-start", { session_id: "a" }, { env });
  expect({ code, out }).toEqual({ code: 0, out: "" });
  expect(err).toContain("there is no store at /nowhere/at/all/store.db");
  expect(project.log()).toContain("there is no store at /nowhere/at/all/store.db");
});

test("a project without a store gets no output and no store", async () => {
  const cwd = line.newProject();
  const ran = await project.hook("claude", "session-start", { session_id: "a" }, { cwd });
  expect(ran).toEqual({ code: 0, out: "", err: "" });
});

test("input that is not JSON is logged in the project of the working directory", async () => {
  const ran = await line.run(["hook", "claude", "stop"], { cwd: project.root, input: "{ this is no JSON" });
  expect(ran).toMatchObject({ code: 0, out: "" });
  expect(ran.err).toContain("JSON");
  expect(project.log()).toContain("JSON");
});
