import { afterAll } from "vitest";
import { openFiles } from "../../src/stores/files/index.ts";
import { twoWritersTest } from "../crash/two-writers.ts";
import { FilesWorkshop } from "./workshop.ts";

const workshop = await FilesWorkshop.make();
afterAll(() => workshop.dispose());

twoWritersTest({ workshop, file: "store", lastsMs: 5_000, open: (path) => openFiles({ path }) });
