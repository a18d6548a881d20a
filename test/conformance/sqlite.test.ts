import { runStoreSuite } from "./run.ts";
import { openSqliteForTest } from "./sqlite-subject.ts";

runStoreSuite({ name: "sqlite", open: openSqliteForTest });
