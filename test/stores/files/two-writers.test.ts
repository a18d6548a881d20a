import { afterAll } from "vitest";
import { openFiles } from "../../../src/stores/files/index.ts";
import { twoWritersTest } from "../../crash/two-writers.ts";
import { FilesWorkshop } from "./workshop.ts";

// On a real disk, because a heartbeat might have to wait for its syncs.
const workshop = await FilesWorkshop.make(process.env["HOLDFAST_DISK"]);
afterAll(() => workshop.dispose());

twoWritersTest({ workshop, file: "store", open: (path) => openFiles({ path }) });
