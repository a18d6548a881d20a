import { onTestFinished } from "vitest";
import { open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";

/** A saver on a store of its own, which ends with the test that asks for it. */
export async function freshSaver(): Promise<HoldfastSaver> {
  const holdfast = await open("memory:");
  onTestFinished(() => holdfast.close());
  return new HoldfastSaver(holdfast);
}
