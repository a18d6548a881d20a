import { onTestFinished } from "vitest";
import { open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";

/** A saver on its own store, closed with the test. */
export async function freshSaver(): Promise<HoldfastSaver> {
  const holdfast = await open("memory:");
  onTestFinished(() => holdfast.close());
  return new HoldfastSaver(holdfast);
}
