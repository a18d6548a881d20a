// Builds the documentation site into site/dist: `npm run docs`. `npm run docs -- dev` serves it while you write.
// VitePress is installed in site/ on first use, so that the package's own tests do not need it.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const site = join(dirname(dirname(fileURLToPath(import.meta.url))), "site");
const vitepress = join(site, "node_modules", "vitepress", "bin", "vitepress.js");
if (!existsSync(vitepress)) {
  execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: site, stdio: "inherit" });
}
const mode = process.argv[2] ?? "build";
execFileSync(process.execPath, [vitepress, mode, site], { stdio: "inherit" });
