// Builds the page of `holdfast ui` into a folder: `node scripts/build-page.mjs dist/ui`.
//
// The files are a fixed set with fixed names: the server reads exactly these. Their licenses go beside them.

import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const source = (name) => join(root, "ui", name);
const FILES = ["icon.svg", "index.html", "page.css", "page.js", "plot.js"];

export async function buildPage(folder) {
  mkdirSync(folder, { recursive: true });
  const bundle = await rolldown({
    cwd: root,
    input: { page: source("main.tsx") },
    platform: "browser",
    tsconfig: false,
    transform: { target: "es2022", jsx: { runtime: "automatic", importSource: "preact" } },
    logLevel: "warn",
  });
  await bundle.write({
    dir: folder,
    format: "esm",
    minify: true,
    entryFileNames: "[name].js",
    chunkFileNames: "[name].js",
    comments: false,
  });
  await bundle.close();
  const styles = [join(root, "node_modules/uplot/dist/uPlot.min.css"), source("page.css")];
  writeFileSync(
    join(folder, "page.css"),
    styles.map((file) => minified(readFileSync(file, "utf8"))).join("\n"),
  );
  for (const name of ["index.html", "icon.svg"]) copyFileSync(source(name), join(folder, name));
  const made = readdirSync(folder).sort();
  if (made.join() !== FILES.join()) throw new Error(`the page has the files ${made}, not ${FILES}`);
}

/** Without comments and indentation. */
function minified(css) {
  return css
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/\s*\n\s*/g, "\n")
    .replace(/\n+/g, "\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildPage(process.argv[2] ?? "dist/ui");
