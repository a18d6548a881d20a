import { afterAll } from "vitest";
import { runStoreSuite } from "./run.ts";
import { sqliteForTest } from "./sqlite-subject.ts";

const subject = sqliteForTest();
runStoreSuite(subject, ["watch"]);
afterAll(() => subject.dispose());
