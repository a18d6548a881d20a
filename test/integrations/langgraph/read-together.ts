import type { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";

/**
 * From here on no read of the thread ends before two callers have read it, so that two runs overlap on any
 * machine.
 */
export function readTogether(thread: string, ...savers: HoldfastSaver[]): void {
  let missing = 2;
  let allRead: () => void = () => undefined;
  const together = new Promise<void>((resolve) => {
    allRead = resolve;
  });
  for (const saver of new Set(savers)) {
    const getTuple = saver.getTuple.bind(saver);
    saver.getTuple = async (asked) => {
      const tuple = await getTuple(asked);
      if (asked.configurable?.["thread_id"] !== thread) return tuple;
      missing -= 1;
      if (missing === 0) allRead();
      await together;
      return tuple;
    };
  }
}
