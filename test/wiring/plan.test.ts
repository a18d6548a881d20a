// Wiring only inserts into a user's configuration, and --remove gives back the same bytes.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  AGENT_TABLE,
  AGENTS,
  type AgentName,
  loadPlanner,
  type PlannedFile,
} from "../../src/wiring/index.ts";

const { planWiring } = await loadPlanner();

const RUNS = process.env["HOLDFAST_FULL"] ? 5_000 : 120;
const launch = { shell: () => "holdfast", mcp: { command: "holdfast", args: ["mcp"] } };
const later = { shell: () => "npx holdfast", mcp: { command: "npx", args: ["holdfast", "mcp"] } };

const SERVER_OF_THEIRS = "has an MCP server holdfast of your own, which was left alone; ours was not added";

type Files = Map<string, string>;
type Planned = ReturnType<typeof planWiring>;

/** A folder that is only a map. */
class Project {
  readonly files: Files;
  records = new Map<string, NonNullable<PlannedFile["record"]>>();

  constructor(files: Iterable<readonly [string, string]>) {
    this.files = new Map(files);
  }

  wire(options: { remove?: boolean; agents?: readonly AgentName[]; with?: typeof launch } = {}): Planned {
    const planned = planWiring({
      agents: options.agents ?? AGENTS,
      remove: options.remove ?? false,
      launch: options.with ?? launch,
      read: (path) => this.files.get(path) ?? null,
      record: (path) => this.records.get(path),
    });
    for (const { path, after, record } of planned) {
      if (after === null) this.files.delete(path);
      else this.files.set(path, after);
      if (record) this.records.set(path, record);
      else this.records.delete(path);
    }
    return planned;
  }
}

const JSON_FILES = AGENTS.flatMap((agent) => AGENT_TABLE[agent].files)
  .filter(({ format }) => format === "json")
  .map(({ path }) => path);

/** How people write: any indent, any line end, comments, trailing commas, all on one line. */
interface Hand {
  readonly step: string;
  readonly eol: string;
  readonly comments: boolean;
  readonly trailing: boolean;
  readonly spaced: boolean;
  readonly bom: boolean;
  readonly end: string;
}

const hand: fc.Arbitrary<Hand> = fc.record({
  step: fc.constantFrom("", "  ", "    ", "\t", " "),
  eol: fc.constantFrom("\n", "\r\n"),
  comments: fc.boolean(),
  trailing: fc.boolean(),
  spaced: fc.boolean(),
  bom: fc.boolean(),
  end: fc.constantFrom("", "\n", "\r\n", "\n\n", "  \n"),
});

function writtenBy(value: unknown, by: Hand, depth = 0): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const [open, close] = isList ? "[]" : "{}";
  const items = isList
    ? value.map((each) => writtenBy(each, by, depth + 1))
    : Object.entries(value).map(
        ([key, each]) => `${JSON.stringify(key)}:${by.spaced ? " " : ""}${writtenBy(each, by, depth + 1)}`,
      );
  if (items.length === 0) return by.spaced ? `${open} ${close}` : `${open}${close}`;
  if (by.step === "") return `${open}${items.join(by.spaced ? ", " : ",")}${by.trailing ? "," : ""}${close}`;
  const pad = by.step.repeat(depth + 1);
  const lines = items.map((item, index) => {
    const isLast = index === items.length - 1;
    const note = by.comments ? (index % 2 === 0 ? ' // mine, "really"' : " /* , */") : "";
    const above = by.comments && index === 0 ? `${pad}// above${by.eol}` : "";
    return `${above}${pad}${item}${isLast && !by.trailing ? "" : ","}${note}`;
  });
  return `${open}${by.eol}${lines.join(by.eol)}${by.eol}${by.step.repeat(depth)}${close}`;
}

const settings = fc.record(
  {
    permissions: fc.record({ allow: fc.array(fc.string(), { maxLength: 3 }) }),
    env: fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 }),
    model: fc.string({ unit: "grapheme" }),
    version: fc.constant(1),
    hooks: fc.dictionary(
      fc.constantFrom("SessionStart", "Stop", "PostToolUse", "sessionStart", "afterFileEdit", "Mine"),
      fc.array(
        fc.oneof(
          fc.record({
            matcher: fc.constantFrom("*", "Edit"),
            hooks: fc.array(
              fc.record({ type: fc.constant("command"), command: fc.constantFrom("lint", "say hook me") }),
            ),
          }),
          fc.record({ command: fc.constantFrom("./mine.sh", "echo } ] //") }),
        ),
        { maxLength: 2 },
      ),
    ),
    mcpServers: fc.dictionary(
      fc.constantFrom("github", "db"),
      fc.record({ command: fc.string(), args: fc.array(fc.string()) }),
    ),
    context: fc.record(
      {
        fileName: fc.oneof(
          fc.constant("MINE.md"),
          fc.constant(["A.md"]),
          fc.constant([]),
          fc.constant(["AGENTS.md"]),
        ),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
);

const jsonText = fc.tuple(settings, hand).map(([value, by]) => {
  return (by.bom ? "\uFEFF" : "") + writtenBy(value, by) + by.end;
});

const TOML = [
  "",
  "\n",
  'model = "o4"\n',
  'model = "o4"',
  "# mine\r\n[mcp_servers.github]\r\ncommand = 'gh'\r\nargs = [\r\n  'a', # one ]\r\n  'b',\r\n]\r\n",
  'x = """\n[mcp_servers.holdfast]\n"""\ny = { a = 1, "b c" = [1, 2] }\n[features]\nhooks = true\n\n\n',
  "[[profile]]\nd = 1979-05-27 07:32:00\n[profile.inner]\nf = -1.5e3",
];

const PAGES = ["", "# Mine\n", "# Mine", "# Mine\r\n\r\nText.\r\n", "\n\n", "text\n\n"];

const project = fc
  .tuple(
    fc.array(
      fc.option(fc.oneof(jsonText, fc.constantFrom("", " \n", "{}", "{ }\n", "// nothing\n{\n}\n")), {
        nil: null,
      }),
      {
        minLength: JSON_FILES.length,
        maxLength: JSON_FILES.length,
      },
    ),
    fc.option(fc.constantFrom(...TOML), { nil: null }),
    fc.option(fc.constantFrom(...PAGES), { nil: null }),
  )
  .map(([texts, toml, page]): [string, string][] => {
    const all = [
      ...JSON_FILES.map((path, index) => [path, texts[index]] as const),
      [".codex/config.toml", toml] as const,
    ];
    return [...all, ["AGENTS.md", page] as const].filter((each): each is [string, string] => each[1] != null);
  });

describe("any configuration of a user", () => {
  test("init and remove give back the same bytes", () => {
    fc.assert(
      fc.property(project, (files) => {
        const folder = new Project(files);
        folder.wire();
        folder.wire({ remove: true });
        expect([...folder.files].sort()).toEqual([...files].sort());
      }),
      { numRuns: RUNS },
    );
  });

  test("a second init changes nothing, even without a record; another command replaces the first", () => {
    fc.assert(
      fc.property(project, (files) => {
        const folder = new Project(files);
        folder.wire();
        const once = new Map(folder.files);
        folder.wire();
        expect(folder.files).toEqual(once);
        const records = folder.records;
        folder.records = new Map();
        folder.wire();
        expect(folder.files).toEqual(once);
        folder.records = records;
        folder.wire({ with: later });
        const text = folder.files.get(".claude/settings.json") ?? "";
        expect(text.match(/npx holdfast hook claude/g)).toHaveLength(9);
        expect(text.match(/"holdfast hook/g)).toBeNull();
        folder.wire();
        expect(folder.files).toEqual(once);
      }),
      { numRuns: RUNS / 2 },
    );
  });

  test("additions of the user stay after a removal", () => {
    fc.assert(
      fc.property(project, fc.constantFrom("\n", "\r\n"), (files, eol) => {
        const folder = new Project(files);
        folder.wire();
        for (const [path, text] of folder.files)
          if (path.endsWith("json")) folder.files.set(path, `// later${eol}${text.replace("\uFEFF", "")}`);
        folder.wire({ remove: true });
        for (const [path, text] of files) {
          if (!path.endsWith("json")) continue;
          expect(folder.files.get(path), path).toBe(`// later${eol}${text.replace("\uFEFF", "")}`);
        }
      }),
      { numRuns: RUNS / 2 },
    );
  });
});

describe("a malformed file is refused with line and column, and nothing is planned", () => {
  test.each([
    [".claude/settings.json", '{\n  "a": 1\n  "b": 2\n}', ".claude/settings.json:3:3: a comma is missing"],
    [".claude/settings.json", "{ 'a': 1 }", ".claude/settings.json:1:3: this is not JSON"],
    [".claude/settings.json", '{"a": "x\n"}', ".claude/settings.json:1:7: a string is not closed"],
    [".mcp.json", "[]", ".mcp.json:1:1: the file has to be an object"],
    [".mcp.json", '{"mcpServers": []}', ".mcp.json:1:16: mcpServers has to be an object"],
    [".cursor/hooks.json", '{"hooks": {"stop": {}}}', ".cursor/hooks.json:1:20: hooks.stop has to be a list"],
    [".gemini/settings.json", '{"a": 1} trailing', ".gemini/settings.json:1:10: this is not JSON"],
    [".gemini/settings.json", "[".repeat(300_000), "nested too deeply"],
    [".codex/config.toml", "a = 1\nb = \n", ".codex/config.toml:2:5: invalid value"],
    [".codex/config.toml", 'a = "x', ".codex/config.toml:1:5: unfinished string"],
    [".codex/config.toml", "a = [1, 2\n", ".codex/config.toml:2:1: expected comma or end of structure"],
    [".codex/config.toml", "mcp_servers = { a = { command = 'x' } }\n", "mcp_servers is not a table"],
    [".codex/config.toml", "[a\n", ".codex/config.toml:1:3: illegal character in key"],
    [
      ".codex/config.toml",
      "a = 1 b = 2\n",
      ".codex/config.toml:1:7: each key-value declaration must be followed by an end-of-line",
    ],
  ])("%s %#", (path, text, says) => {
    const folder = new Project([[path, text]]);
    expect(() => folder.wire()).toThrow(says);
    expect([...folder.files]).toEqual([[path, text]]);
  });
});

describe("settings of the user stay", () => {
  test("a server under our name, and a context file", () => {
    const mine =
      '{"mcpServers": {"holdfast": {"command": "mine", "args": ["x"]}}, "context": {"fileName": "MINE.md"}}';
    const folder = new Project([[".gemini/settings.json", mine]]);
    const planned = folder.wire({ agents: ["gemini"] });
    const after = JSON.parse(folder.files.get(".gemini/settings.json") ?? "");
    expect(after).toMatchObject(JSON.parse(mine));
    expect(planned[0]?.notes).toEqual([
      `.gemini/settings.json: ${SERVER_OF_THEIRS}`,
      ".gemini/settings.json: context is set by you and was left alone",
    ]);
    folder.wire({ remove: true });
    expect(folder.files.get(".gemini/settings.json")).toBe(mine);
  });

  test.each([
    [".mcp.json", '{"mcpServers": {"holdfast": {"command": "mine"}}}'],
    [".cursor/mcp.json", '{"mcpServers": {"holdfast": {"url": "https://mine.example"}}}'],
    [".codex/config.toml", '[mcp_servers.holdfast]\ncommand = "mine"'],
    [
      ".codex/config.toml",
      "[mcp_servers.holdfast]\nargs = [\n 'x'\n]\ncommand = 'mine'\n[mcp_servers.holdfast.env]\nA = 'b'\n",
    ],
    [".codex/config.toml", "[mcp_servers]\nholdfast = { command = 'mine' }\n"],
    [".codex/config.toml", "[mcp_servers]\nholdfast.command = 'mine'\n"],
    [".codex/config.toml", "mcp_servers.holdfast.command = 'mine'\n"],
    [".codex/config.toml", "[mcp_servers.holdfast.env]\nA = 'b'\n"],
  ])("a server of the user in %s stays byte for byte, and every init says so: %j", (path, mine) => {
    const folder = new Project([[path, mine]]);
    for (const records of ["kept", "lost"]) {
      const notes = folder.wire().flatMap((each) => each.notes);
      expect(folder.files.get(path)).toBe(mine);
      expect(notes).toEqual([`${path}: ${SERVER_OF_THEIRS}`]);
      if (records === "lost") folder.records = new Map();
    }
    folder.wire({ remove: true });
    expect(folder.files.get(path)).toBe(mine);
  });

  test("an edited block in AGENTS.md is noticed, and neither replaced nor removed", () => {
    const folder = new Project([["AGENTS.md", "# Mine\n"]]);
    folder.wire();
    const edited = (folder.files.get("AGENTS.md") ?? "").replace("outlive any session", "are ours");
    folder.files.set("AGENTS.md", edited);
    expect(folder.wire().at(-1)?.notes).toEqual([
      "AGENTS.md: the block of Holdfast was edited and is yours now",
    ]);
    expect(folder.files.get("AGENTS.md")).toBe(edited);
    folder.wire({ remove: true });
    expect(folder.files.get("AGENTS.md")).toBe(edited);
  });

  test("text around the block stays when it is removed", () => {
    const folder = new Project([["AGENTS.md", "# Mine\n"]]);
    folder.wire();
    folder.files.set("AGENTS.md", `${folder.files.get("AGENTS.md")}\nAfter.\n`);
    folder.records = new Map();
    folder.wire({ remove: true });
    expect(folder.files.get("AGENTS.md")).toBe("# Mine\n\n\nAfter.\n");
  });
});

test("the files of every agent have the form that it expects", () => {
  const folder = new Project([]);
  folder.wire();
  const json = (path: string) => JSON.parse(folder.files.get(path) ?? "null");
  expect(json(".claude/settings.json").hooks.SessionStart).toEqual([
    {
      matcher: "startup|resume|clear|compact|fork",
      hooks: [{ type: "command", command: "holdfast hook claude session-start", timeout: 10 }],
    },
  ]);
  const [{ matcher }] = json(".claude/settings.json").hooks.PostToolUse;
  for (const tool of ["Edit", "MultiEdit", "Write", "NotebookEdit", "Bash"])
    expect(tool).toMatch(new RegExp(`^(?:${matcher})$`));
  expect(json(".mcp.json")).toEqual({
    mcpServers: { holdfast: { type: "stdio", command: "holdfast", args: ["mcp"] } },
  });
  expect(Object.keys(json(".codex/hooks.json"))).toEqual(["hooks"]);
  expect(json(".codex/hooks.json").hooks.SessionEnd[0].hooks[0].timeout).toBeLessThanOrEqual(3);
  expect(folder.files.get(".codex/config.toml")).toBe(
    '[mcp_servers.holdfast]\ncommand = "holdfast"\nargs = ["mcp"]\n',
  );
  expect(json(".cursor/hooks.json")).toMatchObject({ version: 1, hooks: { stop: [{ loop_limit: 3 }] } });
  expect(json(".gemini/settings.json").hooks.SessionStart[0].hooks[0].timeout).toBe(10_000);
});
