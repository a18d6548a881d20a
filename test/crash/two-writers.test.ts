import { afterAll } from "vitest";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { Workshop } from "./programs.ts";
import { twoWritersTest } from "./two-writers.ts";

const workshop = await Workshop.make();
afterAll(() => workshop.dispose());

twoWritersTest({ workshop, file: "store.db", lastsMs: 10_000, open: (path) => openSqlite({ path }) });
