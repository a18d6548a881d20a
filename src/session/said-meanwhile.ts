import type { SessionState } from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";

/**
 * What users said while the model was asked comes after its answer, as a queued prompt does: the answer is none to that,
 * and the next turn, or the next process, hears it. `heard` is the last message that the model was shown. The answer is
 * about to be appended.
 */
export function putBehindAnswer({ messages }: SessionState, heard: string | undefined): Draft[] {
  const from = messages.findLastIndex(({ id }) => id === heard) + 1;
  const to = messages.length;
  if (from === 0 || from === to || messages[to - 1]?.role !== "user") return [];
  const segments = [{ keep: [0, from] }, { keep: [to, to + 1] }, { keep: [from, to] }];
  return [{ type: "transcript.replaced", data: { segments, why: "said while the model was asked" } }];
}
