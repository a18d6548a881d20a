import { describe, expect, test } from "vitest";
import { noAckAfterError } from "../../torture/checker/index.ts";
import { zombieIsHarmless } from "../../torture/checker/zombie.ts";
import { append, broken, effect, evidenceOf, goodStory, ISSUED, type Story } from "./evidence.ts";

/** Spoils a good story and returns the invariants that the checker finds broken. */
function spoilt(spoil: (story: Story) => void, tool: Story["tool"] = "keyed"): string[] {
  const story = goodStory(tool);
  spoil(story);
  return broken(story);
}

const lost = { type: "call.lost", batch: "b4", data: { callId: "c0", attempt: 1, why: "gone" } };
const retried = (tool: string, batch = "b5") => {
  return { type: "call.issued", batch, data: { ...ISSUED, tool, attempt: 2 } };
};

test("a run without faults breaks no invariant", () => {
  for (const tool of ["keyed", "fenced", "timed", "ask", "fail", "write"] as const) {
    expect(broken(goodStory(tool))).toEqual([]);
  }
});

describe("I1: intent before effect", () => {
  test("an effect without an intent is found", () => {
    expect(spoilt(({ world }) => world.push(effect("keyed", { kind: "replayed", attempt: 2 })))).toContain(
      "I1",
    );
  });

  test("an effect with another key than its intent's is found", () => {
    expect(spoilt((story) => (story.world = [effect("keyed", { key: "hf_2" })]))).toContain("I1");
  });

  test("a tool that begins before its intent was acknowledged is found", () => {
    expect(spoilt(({ acks }) => acks.splice(3, 0, acks.splice(4, 1)[0] as never))).toEqual(["I1"]);
  });

  test("more calls issued at once than may run are found", () => {
    const other = { type: "call.issued", batch: "b3", data: { ...ISSUED, callId: "c1", tool: "keyed" } };
    expect(spoilt(({ events }) => events.splice(3, 0, other))).toContain("I1");
  });
});

test("I2: a lost and a changed record are found", () => {
  expect(spoilt(({ acks }) => acks.push(append(9)))).toEqual(["I2"]);
  expect(spoilt(({ acks }) => acks.push({ ...append(4), sum: 77 }))).toEqual(["I2"]);
});

describe("I3: message slots", () => {
  test("a call that no message asked for is found", () => {
    expect(spoilt(({ events }) => events.splice(1, 1))).toContain("I3");
  });

  test("a call that is not what its message asked for is found", () => {
    expect(spoilt(({ events }) => Object.assign(events[2]?.data as object, { args: { item: "y" } }))).toEqual(
      ["I3"],
    );
  });
});

describe("I4: the promise's table", () => {
  test("a doubled effect is found, whatever the class", () => {
    for (const tool of ["keyed", "fenced", "timed", "ask", "fail", "write"] as const) {
      expect(spoilt(({ world }) => world.push(effect(tool)), tool)).toEqual(["I4"]);
    }
  });

  test("a key that is issued for a second call is found, unless the first has ended", () => {
    const withKey = (callId: string) => {
      return { type: "call.issued", batch: "b3", data: { ...ISSUED, callId, key: "k", tool: "ask" } };
    };
    const keysOf = ({ events }: Story, at: number) => {
      events[2] = withKey("c0");
      events.splice(at, 0, withKey("c1"));
    };
    expect(spoilt((story) => keysOf(story, 3), "ask")).toContain("I4");
    expect(spoilt((story) => keysOf(story, 4), "ask")).not.toContain("I4");
  });

  test("a completed call that never happened is found", () => {
    expect(spoilt((story) => (story.world = []))).toContain("I4");
  });

  test("a failed call that did happen is found, unless its tool gives up by declaration", () => {
    const fails = (by: string) => (story: Story) => {
      story.events[3] = {
        type: "call.failed",
        batch: "b4",
        data: { callId: "c0", attempt: 1, error: {}, by },
      };
      story.calls = [
        { callId: "c0", status: "failed", error: { message: "no" }, result: null, repeats: null },
      ];
      story.acks = story.acks.filter((ack) => ack.t !== "saw");
    };
    expect(spoilt(fails("definite"), "ask")).toEqual(["I4"]);
    expect(spoilt(fails("interrupted"), "fail")).toEqual([]);
  });

  test("a second automatic attempt of a plain tool is found", () => {
    expect(spoilt(({ events }) => events.splice(3, 0, lost, retried("ask", "b4")), "ask")).toContain("I4");
  });
});

describe("I5: what is finished stays", () => {
  test("the same attempt run twice is found", () => {
    const again = { t: "start", pid: 2, session: "s", callId: "c0", attempt: 1 } as const;
    expect(spoilt(({ acks }) => acks.push(again))).toEqual(["I5"]);
  });

  test("a replay that reads otherwise is found", () => {
    const saw = { t: "saw", pid: 2, session: "s", callId: "c0", content: "receipt 2" } as const;
    expect(spoilt(({ acks }) => acks.push(saw))).toEqual(["I5"]);
  });
});

describe("I6: nothing is swallowed", () => {
  test("a call that is in a message and nowhere else is found", () => {
    const swallow = (story: Story): void => {
      story.events.splice(2);
      story.world = [];
      story.calls = [];
      story.acks = [];
    };
    expect(spoilt(swallow)).toEqual(["I6"]);
  });

  test("a repeat that points at nothing is found", () => {
    const repeat = (story: Story): void => {
      const data = { ...ISSUED, tool: "keyed", of: { session: "s", callId: "c9" }, since: 0 };
      story.events.splice(2, 2, { type: "call.repeated", batch: "b3", data });
      const repeats = { session: "s", callId: "c9" };
      story.calls = [{ callId: "c0", status: "repeated", repeats, result: null, error: null }];
      story.world = [];
      story.acks = [];
    };
    expect(spoilt(repeat)).toEqual(["I6"]);
  });
});

describe("I7: order", () => {
  test("a write under an older token after a newer grant is found", () => {
    const takeOver = (story: Story): void => {
      story.events.splice(3, 0, { type: "session.taken", batch: "b9", data: { token: 2 } });
      story.acks = story.acks.map((ack) => (ack.t === "append" && ack.batch === "b4" ? append(4, 1) : ack));
    };
    expect(spoilt(takeOver)).toContain("I7");
  });

  test("a token that was granted twice is found", () => {
    const again = { t: "granted", pid: 2, name: "session/s", token: 1 } as const;
    expect(spoilt(({ acks }) => acks.push(again))).toEqual(["I7"]);
  });
});

test("I8: a second ending is found", () => {
  const end = {
    type: "call.failed",
    batch: "b5",
    data: { callId: "c0", attempt: 1, error: {}, by: "person" },
  };
  expect(spoilt(({ events }) => events.push(end))).toContain("I8");
});

describe("I9: unknown is left only for a recorded reason", () => {
  const complete = (by: string) => {
    return { type: "call.completed", batch: "b6", data: { callId: "c0", attempt: 2, result: {}, by } };
  };
  const retry = (tool: Story["tool"], learnt: Story["events"]) =>
    spoilt((story) => story.events.splice(3, 1, lost, ...learnt, retried(tool), complete("execute")), tool);
  const verified = (answer: string, more = {}) => {
    return { type: "call.verified", batch: "b5", data: { callId: "c0", attempt: 1, answer, ...more } };
  };

  test("a retry that nothing allows is found", () => {
    expect(retry("fenced", [])).toContain("I9");
    expect(retry("fenced", [verified("notYet")])).toContain("I9");
    expect(retry("timed", [verified("notYet")])).toContain("I9");
  });

  test("a retry after a recorded reason is fine", () => {
    expect(retry("fenced", [verified("never")])).not.toContain("I9");
    expect(retry("timed", [verified("notYet", { settled: true })])).not.toContain("I9");
    expect(retry("keyed", [])).not.toContain("I9");
  });

  test("an unknown call that ends by a guess is found", () => {
    const guess = { type: "call.completed", batch: "b5", data: { callId: "c0", attempt: 1, by: "verify" } };
    expect(spoilt(({ events }) => events.splice(3, 1, lost, guess), "fenced")).toContain("I9");
  });
});

test("I13: an acknowledgement after a failed write is found, unless a fresh handle has synced", () => {
  const failed = [
    { act: "write", ok: true },
    { act: "sync", ok: false },
  ] as const;
  const told = { act: "acknowledged", ok: true } as const;
  const proven = [
    { act: "open", ok: true },
    { act: "sync", ok: true },
  ] as const;
  expect(noAckAfterError([...failed, told])).toHaveLength(1);
  expect(noAckAfterError([...failed, { act: "sync", ok: true }, told])).toHaveLength(1);
  expect(noAckAfterError([...failed, ...proven, told])).toEqual([]);
});

test("I14: a program that does not end, and one that waits for nobody, are found", () => {
  expect(spoilt((story) => (story.ended = null))).toContain("I14");
  const waits = {
    t: "result",
    pid: 1,
    session: "s",
    status: "waiting",
    reason: "calls",
    persons: 0,
  } as const;
  expect(spoilt(({ acks }) => acks.push(waits))).toEqual(["I14"]);
});

test("a zombie that writes or starts anything is found", () => {
  const story = goodStory();
  const awake = { pid: 1, underWay: 0, storedBefore: new Set<string>() };
  const wrote = zombieIsHarmless(evidenceOf(story), { ...awake, acksBefore: 5 });
  expect(wrote.map((violation) => violation.what)).toEqual(["a zombie wrote call.completed at 4"]);
  const started = zombieIsHarmless(evidenceOf(story), { ...awake, acksBefore: 4 });
  expect(started[0]?.what).toContain("started 1 effects");
  const storedBefore = new Set(evidenceOf(story).writes.map(({ batch }) => batch));
  expect(zombieIsHarmless(evidenceOf(story), { ...awake, acksBefore: 5, storedBefore })).toEqual([]);
});
