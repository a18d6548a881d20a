import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const docs = fileURLToPath(new URL("../../docs", import.meta.url));
const REPOSITORY = "https://github.com/holdfast-dev/holdfast";

/** Sections in the order of the sidebar. Pages that a section does not name follow by their title. */
const SECTIONS: readonly (readonly [heading: string, folder: string, first: readonly string[]])[] = [
  ["Start", "start", ["first-agent", "ai-sdk", "langgraph", "openai", "openai-agents", "anthropic"]],
  ["Learn", "learn", ["sessions", "tools", "leases", "budgets", "goals", "repo-memory", "how-it-survives"]],
  [
    "Guides",
    "guides",
    [
      "chat",
      "approval",
      "payments",
      "fleet",
      "deploy",
      "merging",
      "review",
      "backup",
      "privacy",
      "time-travel",
      "testing",
    ],
  ],
  ["Reference", "reference", ["commands", "cli", "errors", "configuration", "sql", "mcp-tools", "events"]],
  ["API", "reference/api", ["holdfast"]],
  ["Why", "why", ["comparison", "benchmarks", "invariants", "torture"]],
  ["Decisions", "decisions", []],
];

function titleOf(file: string): string {
  return /^# (.+)$/m.exec(readFileSync(file, "utf8"))?.[1]?.replaceAll("`", "") ?? file;
}

function section([text, folder, first]: (typeof SECTIONS)[number]) {
  const inside = join(docs, folder);
  const names = existsSync(inside)
    ? readdirSync(inside)
        .filter((name) => name.endsWith(".md") && name !== "index.md")
        .map((name) => name.slice(0, -".md".length))
    : [];
  const rank = (name: string): number => (first.includes(name) ? first.indexOf(name) : first.length);
  const items = names
    .sort((one, other) => rank(one) - rank(other) || one.localeCompare(other))
    .map((name) => ({ text: titleOf(join(inside, `${name}.md`)), link: `/${folder}/${name}` }));
  return { text, items, collapsed: folder.includes("/") || folder === "decisions" };
}

/** Pages whose table needs the whole width of the screen. */
const WIDE = ["why/comparison.md"];

const STYLE = `
@media (min-width: 960px) {
  .wide .VPDoc .container, .wide .VPDoc .content, .wide .VPDoc .content-container { max-width: none !important; }
}
.vp-doc p:has(> img[src*="svg"]) { overflow-x: auto; }
.vp-doc p > img[src*="svg"] { max-width: none; width: max(100%, 560px); }
`;

export default defineConfig({
  title: "Holdfast",
  head: [["style", {}, STYLE]],
  transformPageData(page) {
    if (WIDE.includes(page.relativePath))
      Object.assign(page.frontmatter, { pageClass: "wide", aside: false });
  },
  description: "Durable state for AI agents",
  srcDir: docs,
  outDir: fileURLToPath(new URL("../dist", import.meta.url)),
  cacheDir: fileURLToPath(new URL("../node_modules/.cache", import.meta.url)),
  cleanUrls: true,
  lastUpdated: false,
  themeConfig: {
    search: { provider: "local" },
    nav: SECTIONS.filter(([, folder]) => !folder.includes("/") && folder !== "decisions").map((each) => {
      const { text, items } = section(each);
      return { text, link: items[0]?.link ?? "/" };
    }),
    sidebar: SECTIONS.map(section).filter(({ items }) => items.length > 0),
    outline: [2, 3],
    socialLinks: [{ icon: "github", link: REPOSITORY }],
  },
  markdown: {
    config(md) {
      // Pages are plain Markdown: braces in them are no templates.
      for (const kind of ["text", "code_inline"] as const) {
        const render = md.renderer.rules[kind];
        md.renderer.rules[kind] = (...given) => render?.(...given).replaceAll("{{", "&#123;&#123;") ?? "";
      }
      // A link to a file outside of docs/ leads to the repository.
      md.core.ruler.push("links-out", (state) => {
        for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.attrGet("href");
          if (token.type !== "link_open" || href === null || /^([a-z]+:|#|\/)/.test(href)) continue;
          const from = dirname((state.env as { path: string }).path);
          const target = relative(docs, join(from, href));
          if (target.startsWith("..")) {
            token.attrSet("href", `${REPOSITORY}/blob/main/${relative(join(docs, ".."), join(from, href))}`);
          }
        }
      });
    },
  },
});
