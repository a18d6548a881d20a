/**
 * The agent's own tool calls that reach beyond the project, such as `git push`. Hooks record their intent
 * and outcome, so that after a crash the next agent checks before it repeats one.
 *
 * A rule is a few words. A command matches if one of its parts begins with them. Wrappers, variables and
 * options are skipped. A `*` at the end of a rule stands for any rest of the word.
 *
 *     git push          git -C app push origin main; cd app && sudo git push
 *     deploy*           ./deploy.sh; bash scripts/deploy-web.sh
 *     mcp__stripe__*    every tool of that MCP server
 *
 * This runs before and after every shell command of an agent, so it loads nothing.
 */

import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const RULES = [
  "git push",
  ...["npm", "pnpm", "yarn", "bun", "cargo", "poetry", "uv"].map((each) => `${each} publish`),
  ...["npm", "pnpm", "yarn", "bun"].flatMap((each) =>
    ["deploy*", "release*"].map((to) => `${each} run ${to}`),
  ),
  ...["make deploy*", "make release*", "make publish*", "just deploy*", "twine upload", "gem push"],
  ...["docker push", "podman push", "gh release create", "gh workflow run", "gh repo create"],
  ...["gh pr create", "gh pr merge", "gh pr comment", "gh issue create", "glab mr create", "glab mr merge"],
  ...["terraform", "tofu"].flatMap((each) => [`${each} apply`, `${each} destroy`]),
  ...["pulumi up", "kubectl apply", "kubectl delete", "helm install", "helm upgrade", "helm uninstall"],
  ...[
    "vercel",
    "netlify",
    "fly",
    "flyctl",
    "wrangler",
    "serverless",
    "sls",
    "cdk",
    "firebase",
    "railway",
  ].map((each) => `${each} ${each === "railway" ? "up" : "deploy"}`),
  ...["deploy*", "publish*", "release*"],
];

const MCP = /^mcp_/;
const OWN_SERVER = /^mcp_+holdfast_/;
const MCP_VERBS = /_(create|merge|push|publish|deploy|send|post|delete|transfer|pay|charge|refund)(_|$)/;

/** Programs that start the command after them, with their options. */
const WRAPPERS = /^(sudo|env|command|exec|time|nohup|nice|timeout|xargs|npx|bash|sh|zsh|dash|[\d.]+[smh]?)$/;
const MAX_COMMAND = 64 << 10;

/** The part of a call that a rule names, such as `git push origin main`; null for all others. */
export function watchedPart(tool: string, command: string, more: readonly string[]): string | null {
  const own = more.map(wordsOf);
  if (MCP.test(tool)) {
    if (OWN_SERVER.test(tool)) return null;
    const isNamed = own.some((rule) => rule.length === 1 && isWord(tool, rule[0] ?? ""));
    return isNamed || MCP_VERBS.test(tool) ? `${tool} ${command}` : null;
  }
  const rules = [...RULES.map(wordsOf), ...own];
  const parts = command.slice(0, MAX_COMMAND).split(/[\n;&|()`{}]+/);
  return parts.map((each) => each.trim()).find((part) => matches(part, rules)) ?? null;
}

function matches(part: string, rules: readonly (readonly string[])[]): boolean {
  const words = wordsOf(part).map((each) => each.replace(/^["']+|["']+$/g, ""));
  const isBefore = (word: string): boolean =>
    WRAPPERS.test(word) || word.startsWith("-") || /^\w+=/.test(word);
  const from = words.findIndex((each) => !isBefore(each));
  if (from < 0) return false;
  const [program = "", ...rest] = words.slice(from);
  const name = program.slice(program.lastIndexOf("/") + 1);
  return rules.some(([first = "", ...others]) => {
    if (!isWord(name, first) && !isWord(program, first)) return false;
    return follow(rest, others);
  });
}

/** Whether the wanted words come next. Options are skipped, each with one value. */
function follow(words: readonly string[], wanted: readonly string[]): boolean {
  let found = 0;
  let isAfterOption = false;
  for (const word of words) {
    if (found === wanted.length) return true;
    if (isWord(word, wanted[found] ?? "")) found += 1;
    else if (!word.startsWith("-") && !isAfterOption) return false;
    isAfterOption = word.startsWith("-");
  }
  return found === wanted.length;
}

function isWord(word: string, rule: string): boolean {
  return rule.endsWith("*") ? word.startsWith(rule.slice(0, -1)) : word === rule;
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter((each) => each !== "");
}

/** The project's own rules, saved at a session's start: the configuration may be code that loads slowly. */
export function saveRules(folder: string, rules: readonly string[] | undefined): void {
  const file = join(folder, "watched.json");
  if (rules === undefined || rules.length === 0) {
    rmSync(file, { force: true });
    return;
  }
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(rules), { mode: 0o600 });
  renameSync(temporary, file);
}

export function savedRules(folder: string): string[] {
  try {
    const rules: unknown = JSON.parse(readFileSync(join(folder, "watched.json"), "utf8"));
    return Array.isArray(rules) ? rules.filter((each) => typeof each === "string") : [];
  } catch (error) {
    // No rules of the project, or a damaged file: those of Holdfast stay.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
