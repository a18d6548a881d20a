import { afterAll } from "vitest";
import { runStoreSuite } from "../conformance/run.ts";
import { filesForTest } from "./subject.ts";

const subject = filesForTest();
runStoreSuite(subject, ["watch"]);
afterAll(() => subject.dispose());
