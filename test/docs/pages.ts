// The pages of the documentation: their links and code blocks.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Block {
  readonly page: string;
  readonly line: number;
  /** The words after the fence: `ts`, `ts continued`, `sh`. */
  readonly info: string;
  readonly code: string;
}

/** All pages that readers see, by their path in the repository. */
export function docsPages(): ReadonlyMap<string, string> {
  const below = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`);
  const top = [...readdirSync(root).filter((name) => name.endsWith(".md")), "examples/README.md"];
  return new Map([...top, ...below].sort().map((path) => [path, readFileSync(join(root, path), "utf8")]));
}

export function blocksOf(page: string, text: string): Block[] {
  const blocks: Block[] = [];
  let open: { fence: string; info: string; line: number; code: string[] } | null = null;
  for (const [index, line] of text.split("\n").entries()) {
    if (open !== null && line.trim() === open.fence) {
      blocks.push({ page, line: open.line, info: open.info, code: `${open.code.join("\n")}\n` });
      open = null;
    } else if (open !== null) {
      open.code.push(line);
    } else {
      const [, fence = "", info = ""] = /^\s*(`{3,})([^`]*)$/.exec(line) ?? [];
      if (fence !== "") open = { fence, info: info.trim(), line: index + 2, code: [] };
    }
  }
  return blocks;
}

/** The anchor that GitHub and the site give a heading. */
function anchorOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/&lt;/g, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}

export function anchorsOf(text: string): Set<string> {
  const withoutCode = text.replace(/^\s*(`{3,})[\s\S]*?^\s*\1\s*$/gm, "");
  const headings = [...withoutCode.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) => anchorOf(heading));
  const named = [...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id = ""]) => id);
  return new Set([...headings, ...named]);
}

export function linksOf(text: string): { target: string; line: number }[] {
  return text.split("\n").flatMap((line, index) => {
    const plain = line.replace(/`[^`]*`/g, "");
    return [...plain.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => ({ target, line: index + 1 }));
  });
}
