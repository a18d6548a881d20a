/**
 * Whether every line of a STATE.md with two sides of a merge in it is one that some copy of the goal rendered.
 *
 * What the other copy rendered cannot be made again here: it counted its events differently. But whatever it showed stands
 * in the log, so a line is accounted for when it has the form of a rendered one and its words are in an event. A line that
 * is not was written by a person, and must not go with the rest. What is computed is only asked for its form.
 */

import type { Goal } from "../goal/index.ts";
import { oneLine } from "./written-text.ts";

/** Every text of the log, on one line. */
export async function textsOf(goal: Pick<Goal, "id" | "events">): Promise<ReadonlySet<string>> {
  const texts = new Set([goal.id]);
  const add = (value: unknown): void => {
    if (typeof value === "string") texts.add(oneLine(value, Number.POSITIVE_INFINITY));
    else if (value !== null && typeof value === "object") Object.values(value).forEach(add);
  };
  for await (const [, event] of goal.events()) add(event.data);
  return texts;
}

const MARKER = /^(?:<{7}|={7}|>{7}|\|{7})(?: |$)/;
const FRONTMATTER = /^ *[a-z_]+: ?/;
/** Groups hold what has to be in the log. */
const FORMS = [
  /^# (.*)$/,
  /^> (.*)$/,
  /^- \[x\] T-\d{3,} \[done\] (.*)$/,
  /^- \[ \] T-\d{3,} \[(?!done\])[a-z_]+\] (.*)$/,
  /^- D-\d{3,} \(\d{4}-\d\d-\d\d, [a-z_]+\) (.*)$/,
  /^- B-\d{3,} \[[a-z]+\] (.*?)(?: \(affects: [^)]*\))?(?: \(workaround: (.*)\))?$/,
  /^- Q-\d{3,} (.*)$/,
  /^- (.*?)(?: \(T-\d{3,}\))?$/,
  /^Ready: T-\d{3,}: (.*)$/,
  /^T-\d{3,}: (.*)$/,
  /^(.*)$/,
] as const;
const COMPUTED = [
  /^- … \d+ more in /,
  /^- \d+\. .*: [a-z_]+, \d+\/\d+$/,
  /^- \S+ \([^)]*\) [a-z_]+(?:, |$)/,
  /^(?:Phase \d+ of \d+|No phase yet)\b.* · [a-z_]+$/,
  /^\S+ \d+%$/,
];

/** Those lines that no rendering can have had, as far as can be told. `rendered` is the page now. */
export function linesOfNobody(page: string, rendered: string, texts: ReadonlySet<string>): string[] {
  const known = new Set(rendered.split("\n"));
  let isBody = false;
  return page.split("\n").filter((raw) => {
    const line = raw.trimEnd();
    isBody ||= line.startsWith("# ");
    if (line === "" || known.has(line) || MARKER.test(line)) return false;
    if (!isBody && FRONTMATTER.test(line)) return false;
    if (COMPUTED.some((form) => form.test(line))) return false;
    return !FORMS.some((form) => {
      const [, ...words] = form.exec(line) ?? [];
      return form.test(line) && words.every((each) => isSaid(each ?? "", texts));
    });
  });
}

const BETWEEN = [": ", " — "];
/** A cut text has to be long enough to be told from others. */
const CUT = { mark: "…", least: 20 };

/** Whether it is a text of the log, or two of them with what a rendering puts between. */
function isSaid(words: string, texts: ReadonlySet<string>): boolean {
  if (words === "" || texts.has(words)) return true;
  const begun = words.slice(0, -CUT.mark.length);
  const isCut = words.endsWith(CUT.mark);
  if (isCut && begun.length >= CUT.least && [...texts].some((text) => text.startsWith(begun))) return true;
  return BETWEEN.some((between) => {
    for (let at = words.indexOf(between); at >= 0; at = words.indexOf(between, at + 1)) {
      if (texts.has(words.slice(0, at)) && isSaid(words.slice(at + between.length), texts)) return true;
    }
    return false;
  });
}
