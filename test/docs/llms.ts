// llms.txt: the map of the documentation for coding agents, which read it in the package.

import { docsPages } from "./pages.ts";

const FOLDERS: readonly (readonly [heading: string, folder: string])[] = [
  ["Start", "docs/start/"],
  ["Learn", "docs/learn/"],
  ["Guides", "docs/guides/"],
  ["Reference", "docs/reference/"],
  ["Why", "docs/why/"],
];

export function llmsText(): string {
  const pages = docsPages();
  const sections = FOLDERS.map(([heading, folder]) => {
    const lines = [...pages]
      .filter(([path]) => path.startsWith(folder))
      .map(([path, text]) => `- [${titleOf(text)}](${path}): ${firstSentence(text)}`);
    return `## ${heading}\n\n${lines.join("\n")}`;
  });
  return `# Holdfast

> Durable state for AI agents in TypeScript. Every step is on disk before the next one begins. No side effect starts
> before its intent is durable. A finished call never runs again. A call with an unknown outcome is verified, or a person
> decides. SQLite by default, Postgres for many machines, plain files in the repository.

Read docs/start/first-agent.md first. Errors: \`npx holdfast explain <code>\`. Every command: docs/reference/commands.md.

${sections.join("\n\n")}
`;
}

function titleOf(text: string): string {
  return /^# (.+)$/m.exec(text)?.[1] ?? "";
}

/** The first sentence of prose: no comment, heading, table, fence or list. */
function firstSentence(text: string): string {
  const body = text
    .replace(/<!--[\s\S]*?-->/g, "")
    .replace(/^\s*(`{3,})[\s\S]*?^\s*\1\s*$/gm, "")
    .split(/\n{2,}/)
    .map((part) => part.trim())
    .find((part) => part !== "" && !/^([#|!<-]|\d\.)/.test(part));
  const plain = (body ?? "").replace(/\s+/g, " ").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  return /^.*?[.:](?= |$)/.exec(plain)?.[0].replace(/:$/, ".") ?? plain;
}
