import { afterAll } from "vitest";
import { runStoreSuite } from "../conformance/run.ts";
import { postgresForTest } from "./subject.ts";

const subject = postgresForTest();
runStoreSuite(subject);
afterAll(() => subject.dispose());
