// The table of attacks in docs/guides/security.md: each row names a file of tests, and that file has the test.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "./pages.ts";

/** The beginning of a row, and words of the title of its test. */
const TESTS: Readonly<Record<string, string>> = {
  "commands in a clone's agent settings": "the check names %s of a clone and does not run it",
  "a store that git tracks": "a committed store that a committed configuration names",
  "a changed schema": "a store with %s is refused before it is read",
  "event files: a changed event":
    "an event that was changed under its uid is refused in old and fresh clones",
  "event files: values nested": "a value nested 98 to 260 deep is merged or refused",
  "event files: names such as": "an item cannot be renumbered to %j",
  "an event that breaks the fold": "an entry that breaks the fold is left out",
  "orders to the agent": "no message of a merge repeats an order outside of quotes",
  "9 forged files": "two clones that pull hostile files in any orders end equal",
  "pulled acts": "change nothing, are listed with their origin",
  "edits of STATE.md": "is not hidden by a bare repository that the commit puts into .planning",
  "events in a commit whose author": "an author's name cannot put another commit",
  "configuration files with code": "holdfast %s runs no code of a clone",
  "signatures: a foreign key": "%s have no effect, and wait for a person",
  "a list of signers": "do not count by a list of signers inside the repository",
  "answers without an approver's key": "takes no answer without a key",
  "approvals written into the store": "runs no call whose approval was written into the store",
  "text made to be slow": "every reader of a text is done in time",
  "1 MB of sound or refused events": "1 MB of sound events is merged in linear time",
  "5,007 invalid event files": "a look that has refused 5,000 files leaves the rest",
  "500 changed records": "thousands of changed records are set aside",
  "links, folders, 2 GB": "2 GB are not read, but moved aside",
  "hooks and commands in a clone": "every hook and command ends, says what it refused",
  "controls, bidi, tags": "every file in .planning/ is free of them",
  "text that closes the data element": "a page for an agent is one element of data",
  "a person's act in an agent's shell": "acts of a person are refused",
  "a committed link in the place of `.planning`": "is neither read nor written through",
  "a file in the place of `.planning`": "a committed file in the place of .planning is named",
  "links in the place of settings": "outside the project is refused",
  "a link in the place of `.holdfast/hooks`": "a link in the place of the hooks' folder",
  "a `.git` file or link": "a forged or copied .git file nowhere",
  "secrets in errors": "leaves its key in .planning/",
  "MCP server: foreign ids": "under an id that the client did not ask",
  "MCP server: an answer of 16 MB": "a result of 16 MB is stored once",
  "MCP client": "nested too deep is refused",
  "imported files": "%s is refused before anything is written",
  "plain text of an encrypted store": "shows the plain text without encryption, and nothing of it with",
  "a backup that is older": "a backup that is older than an erase",
  "SQL of one Postgres tenant": "no table and no view shows a tenant another's rows",
  "a Postgres server on another machine": "without TLS, before anything is sent",
  "edits of records": "verify and check notice",
  "a whole new chain": "a whole new chain is noticed, which verify alone cannot",
  "requests to the web page": "from another origin",
  "markup and scripts": "of them in every field make no dialog",
};

interface Row {
  readonly attack: string;
  readonly file: string;
}

function rowsOf(guide: string): Row[] {
  const table = guide.slice(guide.indexOf("| attack |")).split("\n\n", 1)[0] ?? "";
  return table
    .trim()
    .split("\n")
    .slice(2)
    .map((line) => {
      const [, attack = "", , , cell = ""] = line.split(" | ").join("|").split("|");
      return { attack: attack.trim(), file: /`(test\/[^`]+)`/.exec(cell)?.[1] ?? "" };
    });
}

function problemsOf(rows: readonly Row[]): string[] {
  return rows.flatMap(({ attack, file }) => {
    if (!existsSync(join(root, file)) || file === "") return [`${attack}: no file ${file}`];
    const found = Object.keys(TESTS).filter((start) => attack.startsWith(start));
    if (found.length !== 1) return [`${attack}: ${found.length} entries in TESTS`];
    const title = TESTS[found[0] ?? ""] ?? "";
    return readFileSync(join(root, file), "utf8").includes(title)
      ? []
      : [`${attack}: no "${title}" in ${file}`];
  });
}

const guide = readFileSync(join(root, "docs/guides/security.md"), "utf8");

test("each attack in the guide has its test in the file that its row names", () => {
  const rows = rowsOf(guide);
  expect(rows.length).toBe(Object.keys(TESTS).length);
  expect(problemsOf(rows)).toEqual([]);
});

test("a row without a file, without an entry, or with the file of another attack is found", () => {
  const file = "test/cli/secrets.test.ts";
  const rows = [
    { attack: "MCP client: x", file: "test/none.test.ts" },
    { attack: "a new attack", file },
    { attack: "MCP client: x", file },
    { attack: "secrets in errors", file },
  ];
  expect(problemsOf(rows)).toHaveLength(3);
});

test("SECURITY.md leads to the guide", () => {
  expect(readFileSync(join(root, "SECURITY.md"), "utf8")).toContain("(docs/guides/security.md)");
});
