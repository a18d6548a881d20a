/** The files of the page: a fixed table, read once at the start. A path outside of it does not exist. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { HoldfastError } from "../model/errors.ts";

export interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  readonly packed: Buffer;
}

const FILES: readonly (readonly [path: string, file: string, type: string])[] = [
  ["/", "index.html", "text/html; charset=utf-8"],
  ["/page.js", "page.js", "text/javascript; charset=utf-8"],
  ["/plot.js", "plot.js", "text/javascript; charset=utf-8"],
  ["/page.css", "page.css", "text/css; charset=utf-8"],
  ["/icon.svg", "icon.svg", "image/svg+xml"],
];

/** Beside the bundled program, or in `dist/` if the program runs from its sources. */
const PLACES = ["./ui/", "../../dist/ui/"];

export function readAssets(folder: string | undefined): ReadonlyMap<string, Asset> {
  const places = PLACES.map((place) => fileURLToPath(new URL(place, import.meta.url)));
  const found = folder ?? places.find((place) => existsSync(join(place, "page.js")));
  if (found === undefined) {
    throw new HoldfastError("STORE_NOT_FOUND", "the files of the page are missing", {
      hint: "Install the package again, or in a clone of the repository: npm run build",
    });
  }
  return new Map(
    FILES.map(([path, file, type]) => {
      const bytes = readFileSync(join(found, file));
      return [path, { type, bytes, packed: gzipSync(bytes, { level: 9 }) }];
    }),
  );
}
