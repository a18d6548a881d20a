/**
 * What somebody wrote into `.planning/` and no event could say: kept beside the file, as `STATE.md.unread-…`. Most often a
 * hook comes upon it, whom nobody reads, so it is named by everybody who is asked how things stand, until it is removed.
 */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { PLANNING, type StorePlace } from "./store-place.ts";

const FOLDERS = ["", "decisions", "blockers", "sessions"];
/** Nothing else of a name that somebody chose gets into an answer. */
const OURS = /^[\w.-]{1,200}\.unread-[0-9a-f]{12}$/;
const NAMED = 5;

/** A line each, and one for those that are too many. */
export function unparsedEdits({ root }: Pick<StorePlace, "root">): string[] {
  const files = FOLDERS.flatMap((folder) =>
    namesIn(join(root, PLANNING, folder))
      .filter((name) => OURS.test(name))
      .sort()
      .map((name) => [PLANNING, folder, name].filter(Boolean).join("/")),
  );
  const more = files.length - NAMED;
  return [
    ...files.slice(0, NAMED).map((file) => `${file}: read it, say in another way what is missing, remove it`),
    ...(more > 0 ? [`${more} more *.unread-… in ${PLANNING}/`] : []),
  ];
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // No such folder, or one that keeps us out: whoever writes there says so.
    return [];
  }
}
