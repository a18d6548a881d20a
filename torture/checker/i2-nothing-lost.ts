/** I2: no acknowledged record is lost or changed. */

import type { Rule, Violation } from "./evidence.ts";

export const nothingLost: Rule = ({ acks, writes, problems }) => {
  const stored = new Map(writes.map((write) => [`${write.stream} ${write.first} ${write.batch}`, write]));
  const lost = acks.flatMap((ack): Violation[] => {
    if (ack.t !== "append") return [];
    const what = `${ack.stream} ${ack.first}-${ack.last}`;
    const found = stored.get(`${ack.stream} ${ack.first} ${ack.batch}`);
    if (!found) return [{ invariant: "I2", what: `${what} was acknowledged and is not there` }];
    if (found.sum === ack.sum && found.last === ack.last) return [];
    return [{ invariant: "I2", what: `${what} is not what was acknowledged` }];
  });
  return [
    ...lost,
    ...problems.map(({ invariant, where, what }) => ({
      invariant: invariant === "medium" ? "I2" : invariant,
      what: `${where}: ${what}`,
    })),
  ];
};
