/**
 * `verify`: whether every record is the one that was written, by the hash chain of its stream (`chain.ts`).
 *
 * A chain by itself shows damage and careless edits. An attacker who can write the store can make a new one,
 * so compare with heads that were saved earlier and signed: they name the last link of every stream. A
 * stream may have grown since, but must still contain that link at that place.
 */

import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { ChainWalk, everyStream, type Journal, walkChain } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { query } from "./operation.ts";
import { checkFile, entriesOf } from "./portable-file/format.ts";

const text = z.string();

const head = z.strictObject({
  namespace: text,
  stream: text,
  generation: z.int(),
  seq: z.int(),
  link: text,
});
const headsFile = z.strictObject({
  holdfast: z.literal("heads"),
  version: z.literal(1),
  at: text,
  heads: z.array(head),
});
type StreamHead = z.output<typeof head>;
type Problem = { where: string; what: string };

const verified = z.strictObject({
  ok: z.boolean(),
  streams: z.int(),
  writes: z.int(),
  /** Streams of other programs, which have no links. */
  unlinked: z.int(),
  problems: z.array(z.strictObject({ where: text, what: text })),
  /** A digest of all heads: two stores with the same digest have the same content. */
  digest: text,
  saved: text.nullable(),
  against: z.strictObject({ file: text, at: text, signedBy: text.nullable() }).nullable(),
});

export const verifyOperations = [
  query("verify", "Verify that every record is the one that was written, by its stream's hash chain", {
    who: "person",
    input: z.strictObject({
      file: text.optional(),
      save: text.optional(),
      sign: text.optional(),
      against: text.optional(),
      signers: text.optional(),
    }),
    result: verified,
    async run(context, { file, save, sign, against, signers }) {
      const at = (path: string): string => resolve(context.cwd, path);
      const expected = against === undefined ? null : await readHeads(at(against), signers && at(signers));
      const empty = new Walked(expected?.heads ?? []);
      const walked =
        file === undefined
          ? await walkStore(await context.journals(), empty)
          : await walkExport(at(file), empty);
      const problems = [...walked.problems, ...walked.differences()];
      const saved = save === undefined || problems.length > 0 ? null : at(save);
      if (saved !== null) await saveHeads(saved, walked.heads, context.now(), sign && at(sign));
      return {
        ok: problems.length === 0,
        streams: walked.heads.length,
        writes: walked.writes,
        unlinked: walked.unlinked,
        problems,
        digest: sha256(JSON.stringify(walked.heads)),
        saved,
        against: expected && { file: at(against ?? ""), at: expected.at, signedBy: expected.signedBy },
      };
    },
  }),
];

/** Findings of a walk over all streams, also compared with the heads of an earlier one. */
class Walked {
  readonly problems: Problem[] = [];
  writes = 0;
  unlinked = 0;
  private readonly found = new Map<string, StreamHead>();
  private readonly expected: ReadonlyMap<string, StreamHead>;
  /** The links that were found at the places of expected ones. */
  private readonly links = new Map<string, string>();

  constructor(expected: readonly StreamHead[]) {
    this.expected = new Map(expected.map((each) => [nameOf(each), each]));
  }

  /** By name, so that their digest does not depend on the order of a list. */
  get heads(): StreamHead[] {
    return [...this.found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
  }

  note(namespace: string, stream: string, seq: number, link: string): void {
    this.writes += 1;
    const name = nameOf({ namespace, stream });
    if (this.expected.get(name)?.seq === seq) this.links.set(name, link);
  }

  end(walk: ChainWalk, found: StreamHead): void {
    if (walk.isLinked === false) this.unlinked += 1;
    if (walk.problem !== null) this.problems.push({ where: found.stream, what: walk.problem });
    this.found.set(nameOf(found), found);
  }

  differences(): Problem[] {
    return [...this.expected].flatMap(([name, each]) => {
      const what = this.difference(name, each);
      return what === null ? [] : [{ where: each.stream, what }];
    });
  }

  private difference(name: string, { generation, seq, link }: StreamHead): string | null {
    const now = this.found.get(name);
    if (now === undefined || now.generation > generation) return "it was removed since the heads were saved";
    if (now.generation < generation || now.seq < seq) {
      return `it ends at ${now.seq}, but ended at ${seq} when the heads were saved`;
    }
    return this.links.get(name) === link ? null : `its events up to ${seq} are not those of the saved heads`;
  }
}

function nameOf({ namespace, stream }: Pick<StreamHead, "namespace" | "stream">): string {
  return JSON.stringify([namespace, stream]);
}

async function walkStore(journals: readonly Journal[], walked: Walked): Promise<Walked> {
  for (const journal of journals) {
    const { namespace } = journal;
    for await (const { stream, head: end } of everyStream(journal, { hidden: true })) {
      let seq = 0;
      const walk = await walkChain(journal, stream, (last, link) => {
        seq = last;
        walked.note(namespace, stream, last, link);
      });
      walked.end(walk, { namespace, stream, generation: end.generation, seq, link: walk.link });
    }
  }
  return walked;
}

async function walkExport(file: string, walked: Walked): Promise<Walked> {
  await checkFile(file);
  let namespace = "";
  let current: { walk: ChainWalk; generation: number; seq: number } | null = null;
  const end = (): void => {
    if (!current) return;
    const { walk, generation, seq } = current;
    walked.end(walk, { namespace, stream: walk.stream, generation, seq, link: walk.link });
  };
  for await (const { line, content } of entriesOf(file)) {
    if ("namespace" in line) {
      end();
      current = null;
      namespace = line.namespace;
    } else if ("stream" in line) {
      end();
      current = { walk: new ChainWalk(line.stream), generation: line.generation, seq: line.base };
    } else if ("write" in line && current) {
      current.walk.add({ ...line.write, payload: content ?? "" });
      current.seq = line.write.last;
      walked.note(namespace, current.walk.stream, current.seq, current.walk.link);
    }
  }
  end();
  return walked;
}

/** The namespace of ssh signatures: a signature for another purpose does not count. */
const SIGNATURE_NAMESPACE = "holdfast-heads";

async function saveHeads(
  file: string,
  heads: readonly StreamHead[],
  now: number,
  key: string | undefined,
): Promise<void> {
  const content = { holdfast: "heads", version: 1, at: new Date(now).toISOString(), heads };
  try {
    await writeFile(file, `${JSON.stringify(content, null, 1)}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    throw new HoldfastError("INPUT_INVALID", `${file} cannot be created: ${(error as Error).message}`, {
      hint: "Choose the name of a new file.",
      data: { file },
    });
  }
  if (key !== undefined) await sshKeygen(["-Y", "sign", "-n", SIGNATURE_NAMESPACE, "-f", key, file]);
}

interface SavedHeads {
  readonly heads: readonly StreamHead[];
  readonly at: string;
  /** Null if the signature was not checked, because no signers were named. */
  readonly signedBy: string | null;
}

async function readHeads(file: string, signers: string | undefined): Promise<SavedHeads> {
  const content = await readFile(file, "utf8").catch((error: unknown) => {
    throw notHeads(file, (error as Error).message);
  });
  const signedBy = signers === undefined ? null : await checkSignature(file, content, signers);
  try {
    const { heads, at } = headsFile.parse(JSON.parse(content));
    return { heads, at, signedBy };
  } catch {
    throw notHeads(file, "its content is not a list of heads");
  }
}

async function checkSignature(file: string, content: string, signers: string): Promise<string> {
  const about = ["-f", signers, "-s", `${file}.sig`];
  const found = await sshKeygen(["-Y", "find-principals", ...about]);
  const [who = ""] = found.split("\n");
  await sshKeygen(["-Y", "verify", "-n", SIGNATURE_NAMESPACE, "-I", who, ...about], content);
  return who;
}

async function sshKeygen(args: readonly string[], input?: string): Promise<string> {
  const running = promisify(execFile)("ssh-keygen", args);
  running.child.stdin?.on("error", () => undefined);
  running.child.stdin?.end(input ?? "");
  try {
    return (await running).stdout.trim();
  } catch (error) {
    const { stderr = "", code } = error as { stderr?: string; code?: string };
    const why = code === "ENOENT" ? "ssh-keygen is not installed" : stderr.trim().split("\n")[0];
    throw new HoldfastError("INPUT_INVALID", `the signature failed: ${why}`, {
      hint: "Signing needs an ssh key; checking needs the .sig beside the file, and the allowed signers.",
    });
  }
}

function notHeads(file: string, why: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file} cannot be compared with: ${why}`, {
    hint: "Pass a file that `holdfast verify --save` has written.",
    data: { file },
  });
}
