// Works on the task that its supervisor names: charges in a session of its own, then submits the task.

import { open } from "../../../src/index.ts";
import { chargeIn } from "./charge.ts";

const [store = "", world = ""] = process.argv.slice(2);
const { HOLDFAST_GOAL = "", HOLDFAST_TASK = "" } = process.env;

const holdfast = await open(store);
const goal = await holdfast.goal(HOLDFAST_GOAL, { by: { name: "agent", role: "worker" } });
const id = `agent-${HOLDFAST_TASK}`;
await goal.startSession({ session: id });
const claim = await goal.claim(HOLDFAST_TASK, { session: id });
await claim.progress(`charging for ${HOLDFAST_TASK}`);
const session = await holdfast.session(id, { goal: goal.id });
await session.call({ callId: "pay", tool: chargeIn(world), args: { order: HOLDFAST_TASK } });
await claim.submit({ summary: "paid" });
await goal.endSession({ session: id });
await goal.close();
await holdfast.close();
