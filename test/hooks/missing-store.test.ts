// A hook that cannot find what it was told to use says so; one in a project without a store says nothing.

import { expect, test } from "vitest";
import type { CommandLine } from "../cli/command-line.ts";
import { type HookedProject, inHookedProjects } from "./hooked-project.ts";

let project: HookedProject;
let line: CommandLine;
inHookedProjects((made, its) => {
  project = made;
  line = its;
});

test("a store that HOLDFAST_STORE names and is not there is told, also in the log", async () => {
  const env = { HOLDFAST_STORE: "/nowhere/at/all/store.db" };
  const { code, out, err } = await project.hook("claude", "session-start", { session_id: "a" }, { env });
  expect({ code, out }).toEqual({ code: 0, out: "" });
  expect(err).toContain("there is no store at /nowhere/at/all/store.db");
  expect(project.log()).toContain("there is no store at /nowhere/at/all/store.db");
});

test("a project without a store hears nothing, and none is made", async () => {
  const cwd = line.newProject();
  const ran = await project.hook("claude", "session-start", { session_id: "a" }, { cwd });
  expect(ran).toEqual({ code: 0, out: "", err: "" });
});

test("what is no JSON is told in the log of the project that the hook runs in", async () => {
  const ran = await line.run(["hook", "claude", "stop"], { cwd: project.root, input: "{ this is no JSON" });
  expect(ran).toMatchObject({ code: 0, out: "" });
  expect(ran.err).toContain("JSON");
  expect(project.log()).toContain("JSON");
});
