/** The agent's script and the world's behaviour, shared by all processes of the torture. */

/** One tool per class of the promise's table. */
export type ToolName = "read" | "keyed" | "fenced" | "timed" | "ask" | "fail" | "once" | "onceFail" | "write";

/** How the world treats the requests of one call. Requests are counted per item, over all senders. */
export interface Behaviour {
  /** Applied, but the connection is cut before the answer. */
  readonly lose?: number;
  /** Refused for certain: nothing is applied. */
  readonly refuse?: number;
  /** Applied this long after the request arrived, even if the sender has died since. */
  readonly delayMs?: number;
  /**
   * The first request is applied right after its call was first verified. That answer was `nothing`, and it
   * takes `answerMs`. So the effect lands between question and answer, at any speed of the machine.
   */
  readonly landsWhenAsked?: { readonly answerMs: number };
  /** Applied and answered only when the harness allows it. */
  readonly hold?: true;
}

export interface ScriptedCall {
  readonly tool: ToolName;
  readonly item: string;
  readonly world?: Behaviour;
}

export interface Scenario {
  readonly name: string;
  /** One list per assistant message. */
  readonly turns: readonly (readonly ScriptedCall[])[];
  readonly parallel: number;
  /** Sessions that the program runs one after another, with the same script. */
  readonly sessions?: readonly string[];
  /** Runs them at the same time instead, so that their appends share flushes. */
  readonly isConcurrent?: true;
  readonly budget?: { readonly turns: number };
  readonly cadence?: "turn" | "call";
  /** Each session is one request (`holdfast.run`), which takes and releases it in the commits of its run. */
  readonly isRequest?: true;
  /**
   * The program has a loop of its own instead of `session.run`. `issuing` appends each answer with the intents
   * of its calls. `direct` makes all calls outside any message, each settled with the next.
   */
  readonly loop?: "issuing" | "direct";
}

/** The configuration of a torture process, passed as its only argument. */
export interface AgentConfig {
  readonly dir: string;
  readonly world: string;
  readonly scenario: Scenario;
  readonly leaseMs: number;
  /** A planted bug, see `planted-bugs.ts`. */
  readonly plant: string | null;
  /** Failpoints stop this process (SIGSTOP) instead of killing it. */
  readonly stops: boolean;
  /** The process stops as soon as the world has a request, until the harness kills it. */
  readonly stopsWhenSent: boolean;
  /** Reports events to the harness and, if `gated`, waits for it before every answer of the model. */
  readonly talks: boolean;
  readonly gated: boolean;
}

/** Exit codes of an agent's process. */
export const EXIT = {
  done: 0,
  crashed: 1,
  waiting: 10,
  paused: 11,
  leaseLost: 20,
  held: 21,
  failed: 22,
} as const;

/** Nothing sent to the world takes effect later than this. */
export const SETTLE_MS = 2_500;
/** Long enough that the next process asks before the effect has landed, and well within `SETTLE_MS`. */
const DELAY_MS = 1_200;

export const SESSION = "s";
export const PROMPT = { id: "p1", text: "Do what the script says." };

const of = (tool: ToolName, world?: Behaviour): ScriptedCall => {
  return { tool, item: `${tool}-1`, ...(world && { world }) };
};

/** The model asks for the same call again after it has seen the answer. */
const twice = (call: ScriptedCall): ScriptedCall[][] => [[call], [call]];

/** Each class alone, with a world that behaves and with one that does not. */
const CLASSES: readonly Scenario[] = [
  ...(["read", "keyed", "fenced", "timed", "ask", "fail", "write"] as const).map((tool): Scenario => {
    return { name: tool, turns: [[of(tool)]], parallel: 1 };
  }),
  ...(["keyed", "fenced", "timed", "ask", "fail"] as const).map((tool): Scenario => {
    return { name: `${tool}, answer lost`, turns: [[of(tool, { lose: 1 })]], parallel: 1 };
  }),
  ...(["timed", "keyed", "fenced"] as const).map((tool): Scenario => {
    return { name: `${tool}, late effect`, turns: [[of(tool, { delayMs: DELAY_MS })]], parallel: 1 };
  }),
  ...(["keyed", "fenced", "ask"] as const).map((tool): Scenario => {
    return { name: `${tool}, refused`, turns: twice(of(tool, { refuse: 1 })), parallel: 1 };
  }),
];

const MIXED: readonly Scenario[] = [
  {
    name: "four at once",
    turns: [[of("keyed"), of("ask", { lose: 1 }), of("fenced"), of("read")]],
    parallel: 4,
    budget: { turns: 9 },
  },
  {
    name: "one after another",
    turns: [[of("ask"), of("keyed"), of("fenced")]],
    parallel: 1,
    cadence: "call",
  },
  {
    name: "said twice",
    turns: [[of("fenced"), of("fenced")], [of("keyed")], [of("keyed"), of("ask")]],
    parallel: 2,
  },
  {
    name: "said twice, answer lost",
    turns: [[of("ask", { lose: 1 }), of("ask", { lose: 1 })]],
    parallel: 2,
  },
  {
    name: "v1, v2, v1",
    turns: [
      [{ tool: "write", item: "v1" }],
      [{ tool: "write", item: "v2" }],
      [{ tool: "write", item: "v1" }],
    ],
    parallel: 1,
  },
  { name: "a request", turns: [[of("ask")]], parallel: 1, budget: { turns: 9 }, isRequest: true },
  {
    name: "own loop",
    turns: [[of("keyed"), of("ask"), of("read")], [of("fenced", { lose: 1 })]],
    parallel: 2,
    loop: "issuing",
  },
  {
    name: "direct calls",
    turns: [[of("keyed"), of("ask"), of("fenced"), of("write")]],
    parallel: 1,
    loop: "direct",
  },
  { name: "once over two sessions", turns: [[of("once")]], parallel: 1, sessions: ["s", "t"] },
  {
    name: "once, given up",
    turns: twice(of("onceFail", { lose: 1 })),
    parallel: 1,
    sessions: ["s", "t"],
  },
];

/** Sessions that only talk: nothing but their appends, and those in step with each other. */
const CONCURRENT: Scenario = {
  name: "four sessions at once",
  turns: [],
  parallel: 1,
  sessions: ["s", "t", "u", "v"],
  isConcurrent: true,
};

/** Only for a process that is killed once its request is sent: until then its tool has no answer. */
const LANDING_WHEN_ASKED: readonly Scenario[] = [
  {
    name: "timed, lands when asked",
    turns: [[of("timed", { landsWhenAsked: { answerMs: 0 } })]],
    parallel: 1,
  },
  {
    name: "timed, lands when asked, slow answer",
    turns: [[of("timed", { landsWhenAsked: { answerMs: SETTLE_MS + 100 } })]],
    parallel: 1,
  },
];

/** The scenarios that run undisturbed and with a kill at every failpoint. */
export const SCENARIOS: readonly Scenario[] = [...CLASSES, ...MIXED];

export function scenario(name: string): Scenario {
  const found = [...SCENARIOS, CONCURRENT, ...LANDING_WHEN_ASKED].find((each) => each.name === name);
  if (!found) throw new Error(`there is no scenario ${JSON.stringify(name)}`);
  return found;
}

/** Does not expire while a process is merely slow. A dead owner is detected much earlier. */
export const LONG_LEASE_MS = 30_000;
