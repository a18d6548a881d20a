/**
 * Checks a fleet's sessions with the rules of the torture checker. Some of them may wait for a person.
 */

import type { Store } from "../../src/store.ts";
import { type Evidence, gatherFrom, RULES, type Violation } from "../../torture/checker/index.ts";
import { EXIT } from "../../torture/scenario.ts";
import type { Fleet } from "./fleet.ts";
import { scriptOf } from "./orders.ts";

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly done: number;
  readonly waiting: number;
  readonly effects: number;
  readonly writes: number;
  /** When each event was written, as its writer's wall clock had it. */
  readonly times: readonly number[];
  /** How often the sessions changed hands, the first time not counted. */
  readonly takeOvers: number;
}

/** Rules about the end of one program. */
const AT_THE_END = ["I6", "I14"];

export async function judge(store: Store, dir: string, fleet: Fleet): Promise<Verdict> {
  const evidence = await gatherFrom(store, dir, scriptOf("any"), EXIT.waiting);
  const ended = [...fleet.endings.values()];
  const done = new Set(ended.filter(({ status }) => status === "done").map(({ session }) => session));
  const violations = [
    ...Object.entries(RULES).flatMap(([name, rule]) => (AT_THE_END.includes(name) ? [] : rule(evidence))),
    ...(RULES["I6"]?.(only(evidence, done)) ?? []),
    ...ended.flatMap((ending): Violation[] => {
      const isVisible = ending.status === "done" || (ending.status === "waiting" && ending.persons > 0);
      const what = `${ending.session} is ${ending.status} and waits for ${ending.persons} persons`;
      return isVisible ? [] : [{ invariant: "I14", what }];
    }),
  ];
  return {
    violations,
    done: done.size,
    waiting: ended.length - done.size,
    effects: evidence.world.filter(({ kind }) => kind === "effect").length,
    writes: evidence.writes.length,
    times: evidence.sessions.flatMap(({ events }) => events.map(({ at }) => at)),
    takeOvers: evidence.sessions.flatMap(({ events }) => events.filter(isTakeOver)).length,
  };
}

function isTakeOver({ type, data }: Evidence["sessions"][number]["events"][number]): boolean {
  return type === "session.taken" && (data["token"] as number) > 1;
}

function only(evidence: Evidence, done: ReadonlySet<string>): Evidence {
  const sessions = evidence.sessions.filter(({ id }) => done.has(id));
  return { ...evidence, sessions, ended: EXIT.done };
}
