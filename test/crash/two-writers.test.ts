import { afterAll } from "vitest";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { Workshop } from "./programs.ts";
import { twoWritersTest } from "./two-writers.ts";

// On a real disk, because a heartbeat could have to wait for its syncs.
const workshop = await Workshop.make(process.env["HOLDFAST_DISK"]);
afterAll(() => workshop.dispose());

twoWritersTest({ workshop, file: "store.db", open: (path) => openSqlite({ path }) });
