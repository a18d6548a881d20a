import type { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";

/**
 * From here on nobody's read of the thread ends before two have the thread as it was: two runs are at once
 * however the machine starts them.
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
