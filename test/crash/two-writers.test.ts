import { afterAll } from "vitest";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { Workshop } from "./programs.ts";
import { twoWritersTest } from "./two-writers.ts";

// On a disk, whose syncs are what a heartbeat could have to wait for.
const workshop = await Workshop.make(process.env["HOLDFAST_DISK"]);
afterAll(() => workshop.dispose());

twoWritersTest({ workshop, file: "store.db", lastsMs: 10_000, open: (path) => openSqlite({ path }) });
