/**
 * `init` creates the store and `.planning/`, and wires coding agents to them. `schema new` generates a
 * project's own schemas.
 *
 * `init` plans the changes of configuration files first, so that a file that cannot be parsed stops it before
 * it has created anything. Then it creates the store, records the changes, and writes all files or none.
 */

import { existsSync, mkdirSync, realpathSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import * as z from "zod";
import { type ErrorCode, HoldfastError, isRetryable } from "../model/errors.ts";
import { quoteValue, shellWord } from "../model/names.ts";
import type { AgentName, PlannedFile } from "../wiring/index.ts";
import {
  AGENT_TABLE,
  AGENTS,
  agentsNamed,
  agentsThere,
  findLaunch,
  leadsOut,
  loadPlanner,
  loadProver,
  placeAll,
  Records,
  readWhole,
  refuseLinksOut,
} from "../wiring/index.ts";
import type { Context } from "./context.ts";
import { foreignPage } from "./goal-import.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { PLANNING } from "./store-place.ts";

const text = z.string();

const TYPES = ["string", "integer", "number", "boolean", "string[]"] as const;
const fields = z.record(text, z.union([z.enum(TYPES), z.strictObject({ enum: z.tuple([text], text) })]));

export const schemaOperations = [
  query("explain", "Explain an error code: what caused it, and what to do", {
    input: z.strictObject({ code: text.optional() }),
    result: z.strictObject({
      codes: z.array(z.strictObject({ code: text, cause: text, cure: text, retryable: z.boolean() })),
    }),
    async run(_context, { code }) {
      const { ERROR_GUIDE } = await import("../model/error-guide.ts");
      const wanted = code?.toUpperCase().replace(/[\s-]+/g, "_");
      const rows = Object.entries(ERROR_GUIDE).filter(([each]) => wanted === undefined || each === wanted);
      if (rows.length === 0) {
        throw new HoldfastError("INPUT_INVALID", `explain: there is no error code ${quoteValue(code)}`, {
          hint: "List them all: holdfast explain",
        });
      }
      return {
        codes: rows.map(([name, { cause, cure }]) => {
          return { code: name, cause, cure, retryable: isRetryable(name as ErrorCode) };
        }),
      };
    },
  }),
  mutation("schema new", "Write a project's own state and board: schemas, typed managers, migrations", {
    input: z.strictObject({
      name: text,
      folder: text.optional(),
      state: fields.optional(),
      build: fields.optional(),
      review: fields.optional(),
    }),
    result: z.strictObject({ name: text, folder: text, files: z.array(text) }),
    async run(_context, { folder = ".", ...template }) {
      const { generateState } = await import("../state-files/index.ts");
      const files = Object.entries(generateState(definedFields(template)));
      const target = resolve(folder);
      const there = files.map(([path]) => path).filter((path) => existsSync(join(target, path)));
      if (there.length > 0) {
        throw new HoldfastError("STREAM_EXISTS", `${there.join(", ")}: file exists`, {
          hint: "Nothing was written. Edit the existing files, or choose another name.",
          data: { files: there },
        });
      }
      for (const [path, content] of files) {
        mkdirSync(dirname(join(target, path)), { recursive: true });
        writeFileSync(join(target, path), content, { flag: "wx" });
      }
      return { name: template.name, folder: target, files: files.map(([path]) => path) };
    },
  }),
];

const file = z.strictObject({
  path: text,
  agent: z.enum(AGENTS).nullable(),
  change: z.enum(["created", "changed", "removed", "same"]),
  diff: text.nullable(),
});

const agent = z.enum(AGENTS);
const proof = z.strictObject({ agent, what: text, ok: z.boolean(), detail: text, ms: z.int().nullable() });

const result = z.strictObject({
  mode: z.enum(["made", "planned", "removed", "checked"]),
  ok: z.boolean(),
  address: text.nullable(),
  created: z.boolean(),
  agents: z.array(z.enum(AGENTS)),
  command: text,
  /** The command that tests this wiring. It repeats `--command`, since nothing else is run. */
  checkCommand: text,
  root: text,
  files: z.array(file),
  proofs: z.array(proof),
  /** Agents that would skip the wiring until a person has trusted the project, and what that person does. */
  untrusted: z.array(z.strictObject({ agent, detail: text })),
  /** Things that were left unchanged, or that only a person can do. */
  notes: z.array(text),
});

type Result = z.input<typeof result>;

const initInput = z.strictObject({
  /** `claude,codex`, `all` or `none`; by default all, or none if a store is named. */
  agents: text.optional(),
  /** The command with which agents start Holdfast; detected unless given. */
  command: text.optional(),
  dryRun: z.boolean().optional(),
  remove: z.boolean().optional(),
  check: z.boolean().optional(),
  /** Also writes files that links of the project lead to outside of it. */
  followLinks: z.boolean().optional(),
});
type Init = z.output<typeof initInput>;

interface Plan {
  readonly agents: readonly AgentName[];
  readonly files: readonly PlannedFile[];
  /** One for each file; null unless this is a dry run. */
  readonly diffs: readonly string[] | null;
  readonly records: Records;
  readonly command: string;
  readonly checkCommand: string;
  readonly root: string;
  readonly notes: readonly string[];
}

function launchOf({ place }: Context, command: string | undefined): ReturnType<typeof findLaunch> {
  return findLaunch(place.root, command, realpathSync(process.argv[1] ?? "holdfast"));
}

function checkCommandOf(typed: string, named: string | undefined): string {
  return `${typed} init --check${named === undefined ? "" : ` --command ${shellWord(named)}`}`;
}

async function plan(context: Context, input: Init): Promise<Plan> {
  const { agents: named, command, remove = false, dryRun = false } = input;
  const { root, home } = context.place;
  const agents = named === undefined && !remove ? agentsToWire(context) : agentsNamed(named);
  const launch = launchOf(context, command);
  const records = new Records(home);
  const { planWiring, unifiedDiff } = await loadPlanner();
  const files = planWiring({
    agents,
    remove,
    launch,
    read: (path) => readWhole(root, path),
    record: (path) => records.of(path),
  });
  if (!input.followLinks) refuseLinksOut(root, files);
  const linked = files.flatMap(({ path, before, after }) => {
    const target = before === after ? null : leadsOut(root, path);
    return target === null ? [] : [`${path}: leads to ${target}, which was changed`];
  });
  const isNoted = launch.note !== null && agents.length > 0 && !remove;
  const isNoneThere = agents.length === 0 && named === undefined && !context.isStoreNamed;
  const notes = [
    ...linked,
    ...files.flatMap((each) => each.notes),
    ...(isNoted ? [launch.note ?? ""] : []),
    ...(isNoneThere ? [`no coding agent was found. To wire one: ${launch.typed} init --agent claude`] : []),
  ];
  const diffs = dryRun ? files.map(({ path, before, after }) => unifiedDiff(path, before, after)) : null;
  const checkCommand = checkCommandOf(launch.typed, command);
  return { agents, files, diffs, records, notes, root, command: launch.typed, checkCommand };
}

/** Agents that are there, and those wired already: a second `init` changes nothing. */
function agentsToWire({ place, isStoreNamed }: Context): readonly AgentName[] {
  // The project's hooks use the default store, so a named store wires no agents.
  if (isStoreNamed) return [];
  const known = [...agentsThere(place.root), ...wiredAgents(place)];
  return AGENTS.filter((each) => known.includes(each));
}

function fileResult({ path, agent, before, after }: PlannedFile, diff: string | null): z.input<typeof file> {
  const change =
    before === after ? "same" : before === null ? "created" : after === null ? "removed" : "changed";
  return { path, agent, change, diff };
}

async function make(context: Context, planned: Plan): Promise<Result> {
  const { root } = context.place;
  const created = !context.place.exists;
  const { address } = await context.create();
  if (!context.isStoreNamed) mkdirSync(join(root, PLANNING), { recursive: true });
  if (planned.agents.length > 0) {
    planned.records.save(planned.files, "added");
    placeAll(root, planned.files);
  }
  const isNew = planned.files.some(({ before, after }) => before !== after);
  const page = context.isStoreNamed ? null : foreignPage(context.place);
  const offers = page === null ? [] : [`${page} can become a goal: ${planned.command} goal import ${page}`];
  const afterwards = isNew ? planned.agents.map((agent) => AGENT_TABLE[agent].afterwards) : [];
  return { ...base(planned, "made"), address, created, notes: [...planned.notes, ...offers, ...afterwards] };
}

function remove(context: Context, planned: Plan): Result {
  const { root, home } = context.place;
  placeAll(root, planned.files);
  planned.records.save(planned.files, "removed");
  try {
    rmdirSync(join(root, PLANNING));
  } catch (error) {
    // It does not exist, or holds the files of goals, which stay.
    if (!["ENOENT", "ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
  const kept = context.place.exists ? [`the store is kept: ${relative(context.cwd, home) || home}`] : [];
  return { ...base(planned, "removed"), notes: [...planned.notes, ...kept] };
}

function base(planned: Plan, mode: Result["mode"]): Result {
  return {
    mode,
    ok: true,
    address: null,
    created: false,
    agents: [...planned.agents],
    command: planned.command,
    checkCommand: planned.checkCommand,
    root: planned.root,
    files: planned.files.map((each, index) => fileResult(each, planned.diffs?.[index] ?? null)),
    proofs: [],
    untrusted: [],
    notes: [...planned.notes],
  };
}

/** Agents that `init` wired here, or whose files mention Holdfast, as in a clone. */
function wiredAgents({ root, home }: Context["place"]): readonly AgentName[] {
  const records = new Records(home);
  const isWired = (path: string): boolean =>
    records.of(path) !== undefined || (readWhole(root, path)?.includes("holdfast") ?? false);
  return AGENTS.filter((agent) => AGENT_TABLE[agent].files.some(({ path }) => isWired(path)));
}

async function check(context: Context, { agents: named, command }: Init): Promise<Result> {
  const { root } = context.place;
  const wired = named === undefined ? wiredAgents(context.place) : [];
  const agents = wired.length > 0 ? wired : agentsNamed(named);
  const { address } = await context.holdfast();
  const { proveWiring, untrustedAgents } = await loadProver();
  const launch = launchOf(context, command);
  const proofs = await proveWiring({ root, launch, read: (path) => readWhole(root, path) }, agents);
  const ok = proofs.every((each) => each.ok);
  return {
    mode: "checked",
    created: false,
    files: [],
    notes: [],
    ok,
    address,
    agents: [...agents],
    command: launch.typed,
    checkCommand: checkCommandOf(launch.typed, command),
    root,
    proofs: proofs.map((each) => ({ ...each })),
    untrusted: untrustedAgents({ root, main: dirname(context.place.home) }, agents),
  };
}

export const initOperations = [
  mutation("init", "Create the store and .planning/, and wire this project's coding agents", {
    who: "person",
    input: initInput,
    result,
    async run(context, input) {
      if (input.check) return check(context, input);
      const planned = await plan(context, input);
      if (input.dryRun) return base(planned, "planned");
      return input.remove ? remove(context, planned) : make(context, planned);
    },
  }),
];
