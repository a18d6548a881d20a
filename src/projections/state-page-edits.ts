/** Hand edits of STATE.md: title, statement, next action, tasks and the records with an id. */

import { type Goal, noteActs, planningActs, sessionActs } from "../goal/index.ts";
import { DECISION_TYPES, type DecisionType, taskOf } from "../model/goal/index.ts";
import { type Change, change, finishTask, removedTasks, reopenTask, unless } from "./edit-changes.ts";
import type { PageItem, PageTask, StatePage } from "./state-page.ts";
import { oneLine } from "./written-text.ts";

const BY_HAND = "Written into STATE.md by hand.";
const isShortened = (text: string): boolean => text.endsWith("…");

/** `since`: the revision of the base. An equal item that the goal got later came from this edit. */
export function pageChanges(from: StatePage, to: StatePage, since: number): Change[] {
  return [
    ...descriptionChanges(from, to),
    ...nextChanges(from, to),
    ...taskChanges(from.tasks, to.tasks, since),
    ...listChanges(from.decisions, to.decisions, {
      added: (text) => newDecision(text, since),
      edited: (id, _before, after) => {
        const what = `${id}: edit its file in decisions/, which makes a new decision`;
        return change(`decision:${id}`, after, what, null);
      },
      removed: (id) => change(`decision:${id}`, null, `${id} was removed: supersede it instead`, null),
    }),
    ...listChanges(from.blockers, to.blockers, {
      added: (text) => newBlocker(text, since),
      edited: statusOfBlocker,
      removed: (id) => resolveBlocker(id, "Removed from STATE.md by hand."),
    }),
    ...listChanges(from.questions, to.questions, {
      added: newQuestion,
      edited: answerQuestion,
      removed: (id) => change(`question:${id}`, null, `${id} was removed: answer it with "=> …"`, null),
    }),
    ...listChanges(from.assumptions, to.assumptions, {
      added: newAssumption,
      edited: settleAssumption,
      removed: (id) => change(`assumption:${id}`, null, `${id} was removed: ${SETTLING}`, null),
    }),
    ...computedChanges(from.others, to.others),
  ];
}

/** The goal's own changes since the base. An item that left the page was not removed. */
export function shownChanges(from: StatePage, now: StatePage): Change[] {
  // The computed line changes with everything else.
  return pageChanges({ ...from, ready: "" }, { ...now, ready: "" }, 0).filter(
    ({ key }) => !/^(?:drop|blocker|decision|question|assumption):/.test(key),
  );
}

function descriptionChanges(from: StatePage, to: StatePage): Change[] {
  const found: Change[] = [];
  for (const name of ["title", "statement"] as const) {
    const text = to[name];
    if (text === from[name]) continue;
    if (text === null || isShortened(text)) {
      const how = text === null ? "removed" : "edited where it is shortened";
      found.push(change(name, text, `the ${name} was ${how}`, null));
      continue;
    }
    found.push(
      change(name, text, `${name}: ${text}`, (state, by) =>
        planningActs.describe(state, by, { [name]: text }),
      ),
    );
  }
  return found;
}

const TASK_FIRST = /^(T-\d{3,})\b(?:: *)?(.*)$/;

/** An edit of the computed line names a task; the rest of the line is the text of the next action. */
function nextChanges(from: StatePage, to: StatePage): Change[] {
  const isComputedEdited = to.ready !== "" && to.ready !== from.ready;
  const isTwice = isComputedEdited && from.next !== to.next && TASK_FIRST.test(to.next);
  const named = isComputedEdited && !isTwice ? [to.ready, withoutTask(to.next)] : [to.next];
  const next = named.filter(Boolean).join(" — ");
  const found: Change[] = [];
  if (isTwice) found.push(change("ready", to.ready, "two lines say which task is next: one is enough", null));
  if (from.next === next) return found;
  if (isShortened(next))
    return [...found, change("next", next, "the next action was edited where it is shortened", null)];
  const act: Change["act"] = (state, by) => {
    if (next === "") return sessionActs.setNext(state, by, null);
    const [, id, words = ""] = TASK_FIRST.exec(next) ?? [];
    if (id === undefined) return sessionActs.setNext(state, by, { text: next });
    const task = taskOf(state, id);
    const shown = [task.title, titleIn(from.ready), titleIn(from.next)];
    return sessionActs.setNext(state, by, { task: task.id, text: beyondTitle(words, shown) || null });
  };
  return [...found, change("next", next, `next action: ${next || "none"}`, act)];
}

function withoutTask(next: string): string {
  if (!TASK_FIRST.test(next)) return next;
  return / — (.*)$/.exec(next)?.[1] ?? "";
}

function titleIn(line: string): string {
  return (TASK_FIRST.exec(line)?.[2] ?? "").replace(/ — .*$/, "");
}

/** The text after the task's title, or after the title of the task that the line named before. */
function beyondTitle(words: string, titles: readonly string[]): string {
  for (const title of titles.map((each) => each.replace(/\s+/gu, " ").trim())) {
    if (title === "" || !words.startsWith(title)) continue;
    const rest = words.slice(title.length);
    if (!/^[\p{L}\p{N}]/u.test(rest)) return rest.replace(/^\s*[—,;:.-]?\s*/u, "");
  }
  return words.replace(/^\s*—\s*/u, "");
}

function byId<Item extends PageItem>(items: readonly Item[]): Map<string, Item> {
  return new Map(items.flatMap((item) => (item.id === null ? [] : [[item.id, item] as const])));
}

function taskChanges(from: readonly PageTask[], to: readonly PageTask[], since: number): Change[] {
  const before = byId(from);
  const after = byId(to);
  const found: Change[] = [];
  for (const [id, task] of after) {
    const old = before.get(id);
    if (!old) {
      const what = `${id} was not on the page: change it in task_board.json`;
      found.push(change(`task:${id}`, task.text, what, null));
      continue;
    }
    if (task.text !== old.text) found.push(retitleTask(id, task.text));
    if (task.isChecked !== old.isChecked) {
      const act = task.isChecked ? finishTask(id, "STATE.md") : reopenTask(id, "STATE.md");
      found.push(
        change(`done:${id}`, task.isChecked, `${id} ${task.isChecked ? "done" : "open again"}`, act),
      );
    }
  }
  found.push(...removedTasks(before, after, "STATE.md"), ...reordered(before, after));
  for (const task of to) if (task.id === null) found.push(newTask(task, since));
  return found;
}

/** Reports an order that the goal does not keep: a person who moves a task up wants it earlier. */
function reordered(before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>): Change[] {
  const now = [...after.keys()].filter((id) => before.has(id));
  const then = [...before.keys()].filter((id) => after.has(id));
  if (now.join() === then.join()) return [];
  const what =
    "the order of tasks follows phase, plan, wave and number: name the one to do first under Next Action";
  return [change("order", now, what, null)];
}

function retitleTask(id: string, title: string): Change {
  if (title === "" || isShortened(title))
    return change(`title:${id}`, title, `${id}: its title is shortened here`, null);
  return change(`title:${id}`, title, `${id}: ${title}`, (state, by) =>
    planningActs.editTask(state, by, { task: id, change: { title } }),
  );
}

function newTask({ text, isChecked }: PageTask, since: number): Change {
  const act = unless(
    (state) => [...state.tasks.values()].some(({ title, seq }) => title === text && seq > since),
    (state, by) => planningActs.addTasks(state, by, [{ title: text }]),
  );
  const what = isChecked ? `task "${text}" was added as done: it is added as open` : `new task: ${text}`;
  return change(`new task:${text}`, true, what, act);
}

interface ListEdits {
  added(text: string): Change;
  edited(id: string, before: string, after: string): Change;
  removed(id: string): Change;
}

function listChanges(from: readonly PageItem[], to: readonly PageItem[], edits: ListEdits): Change[] {
  const before = byId(from);
  const after = byId(to);
  const changed = to.flatMap(({ id, text }) => {
    if (id === null) return [edits.added(text)];
    const old = before.get(id)?.text;
    return old === text ? [] : [edits.edited(id, old ?? "", text)];
  });
  const gone = [...before.keys()].filter((id) => !after.has(id));
  return [...changed, ...gone.map((id) => edits.removed(id))];
}

/** Parses `(2024-01-15, technology) JWT library: jose because it is typed`, or a part of that. */
function newDecision(item: string, since: number): Change {
  const head = /^\(([^)]*)\) */.exec(item);
  const words = (head?.[1] ?? "").split(/, */);
  const type = words.find((word): word is DecisionType =>
    (DECISION_TYPES as readonly string[]).includes(word),
  );
  const date = words.find((word) => /^\d{4}-\d\d-\d\d$/.test(word));
  const body = head && (type || date) ? item.slice(head[0].length) : item;
  const because = / because (.*)$/.exec(body);
  const statement = because ? body.slice(0, because.index) : body;
  const colon = statement.indexOf(": ");
  const input = {
    type: type ?? ("preference" as const),
    context: colon > 0 ? statement.slice(0, colon) : statement,
    decision: colon > 0 ? statement.slice(colon + 2) : statement,
    reason: because?.[1] ?? BY_HAND,
  };
  const act = unless(
    (state) =>
      [...state.decisions.values()].some(
        ({ context, decision, seq }) =>
          context === input.context && decision === input.decision && seq > since,
      ),
    (state, by) => {
      const today = new Date(state.updatedAt).toISOString().slice(0, 10);
      return noteActs.decide(state, by, date ? { ...input, date } : input, today, null);
    },
  );
  return change(`new decision:${item}`, true, `new decision: ${item}`, act);
}

function newBlocker(item: string, since: number): Change {
  const affects = /\(affects: ([^()]*)\) *$/.exec(item);
  const description = affects ? item.slice(0, affects.index).trimEnd() : item;
  const words = (affects?.[1] ?? "").split(/, */).filter(Boolean);
  const act = unless(
    (state) =>
      [...state.blockers.values()].some((each) => each.description === description && each.seq > since),
    (state, by) => noteActs.block(state, by, { description, affects: words }),
  );
  return change(`new blocker:${item}`, true, `new blocker: ${item}`, act);
}

function resolveBlocker(id: string, resolution: string): Change {
  const act = unless(
    (state) => state.blockers.get(id)?.status === "resolved",
    (state, by) => noteActs.resolve(state, by, { blocker: id, resolution }),
  );
  return change(`blocker:${id}`, "resolved", `${id} resolved`, act);
}

/** Only its status can be changed here: `[active]`, `[resolved]`, `[bypassed]` with `(workaround: …)`. */
function statusOfBlocker(id: string, before: string, after: string): Change {
  const status = /^\[([a-z]+)\]/.exec(after)?.[1];
  if (status === /^\[([a-z]+)\]/.exec(before)?.[1]) {
    const what = `${id}: its text cannot be changed, only its status`;
    return change(`blocker text:${id}`, after, what, null);
  }
  if (status === "resolved") return resolveBlocker(id, BY_HAND);
  const workaround = /\(workaround: (.*)\)$/.exec(after)?.[1];
  if (status === "bypassed" && workaround) {
    return change(`blocker:${id}`, "bypassed", `${id} bypassed`, (state, by) =>
      noteActs.bypass(state, by, { blocker: id, workaround }),
    );
  }
  if (status === "active") {
    return change(`blocker:${id}`, "active", `${id} active`, (state, by) => noteActs.identify(state, by, id));
  }
  const what = `${id}: write [active], [resolved], or [bypassed] … (workaround: …)`;
  return change(`blocker:${id}`, status, what, null);
}

export function newQuestion(text: string): Change {
  const act = unless(
    (state) => [...state.questions.values()].some((question) => question.text === text),
    (state, by) => noteActs.ask(state, by, text),
  );
  return change(`new question:${text}`, true, `new question: ${text}`, act);
}

function answerQuestion(id: string, before: string, after: string): Change {
  const answer = after.startsWith(before) ? /^ *=> *(.+)$/.exec(after.slice(before.length))?.[1] : undefined;
  if (answer === undefined) {
    return change(`question:${id}`, after, `${id}: answer it with "=> …" at the end of its line`, null);
  }
  return change(`question:${id}`, answer, `${id} answered: ${answer}`, (state, by) =>
    noteActs.answer(state, by, { question: id, answer }),
  );
}

export function newAssumption(text: string): Change {
  const act = unless(
    (state) => [...state.assumptions.values()].some((assumption) => assumption.text === text),
    (state, by) => noteActs.assume(state, by, text),
  );
  return change(`new assumption:${text}`, true, `new assumption: ${text}`, act);
}

const SETTLING = 'write "=> confirmed: …" or "=> refuted: …" at the end of its line';

function settleAssumption(id: string, before: string, after: string): Change {
  const added = after.startsWith(before) ? after.slice(before.length) : "";
  const [, word, evidence] = /^ *=> *(confirmed|refuted): *(.+)$/.exec(added) ?? [];
  if (word === undefined || evidence === undefined)
    return change(`assumption:${id}`, after, `${id}: ${SETTLING}`, null);
  const status = word as "confirmed" | "refuted";
  return change(`assumption:${id}`, status, `${id} ${status}: ${evidence}`, (state, by) =>
    noteActs.settle(state, by, { assumption: id, status, evidence }),
  );
}

function computedChanges(from: ReadonlyMap<string, string>, to: ReadonlyMap<string, string>): Change[] {
  const names = new Set([...from.keys(), ...to.keys()]);
  return [...names]
    .filter((name) => from.get(name) !== to.get(name))
    .map((name) =>
      change(`section:${name}`, to.get(name) ?? null, `section "${name}" cannot be changed here`, null),
    );
}

// Below: the lines of a STATE.md with both sides of a merge that a person wrote. The other copy cannot be
// rendered here, but its texts are in the log: a rendered line has a known form, and words of an event.

export async function textsInLog(goal: Pick<Goal, "id" | "events">): Promise<ReadonlySet<string>> {
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
/** The groups capture words that must be in the log. */
const FORMS = [
  /^# (.*)$/,
  /^> (.*)$/,
  /^- \[x\] T-\d{3,} \[done\] (.*)$/,
  /^- \[ \] T-\d{3,} \[(?!done\])[a-z_]+\] (.*)$/,
  /^- D-\d{3,} \(\d{4}-\d\d-\d\d, [a-z_-]+\) (.*?)(?: \(because: (.*)\))?$/,
  /^- B-\d{3,} \[[a-z]+\] (.*?)(?: \(affects: [^)]*\))?(?: \(workaround: (.*)\))?$/,
  /^- Q-\d{3,} (.*)$/,
  /^- A-\d{3,} (.*?)(?: \(refuted: (.*)\))?$/,
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

/** The lines that no rendering can have had. `rendered` is the page now. */
export function unrenderedLines(page: string, rendered: string, texts: ReadonlySet<string>): string[] {
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
      return form.test(line) && words.every((each) => isLogged(each ?? "", texts));
    });
  });
}

const BETWEEN = [": ", " — "];
/** A shortened text must be long enough to identify its original. */
const CUT = { mark: "…", least: 20 };

const sortedTexts = new WeakMap<ReadonlySet<string>, readonly string[]>();

/** Whether a text begins so: a search in the sorted texts, because a page may have thousands of cut lines. */
function hasPrefix(texts: ReadonlySet<string>, start: string): boolean {
  const sorted = sortedTexts.get(texts) ?? [...texts].sort();
  sortedTexts.set(texts, sorted);
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as string) < start) low = middle + 1;
    else high = middle;
  }
  return sorted[low]?.startsWith(start) ?? false;
}

/** Whether it is a text of the log, or two of them with a separator of the rendering between. */
function isLogged(words: string, texts: ReadonlySet<string>): boolean {
  if (words === "" || texts.has(words)) return true;
  const start = words.slice(0, -CUT.mark.length);
  const isCut = words.endsWith(CUT.mark);
  if (isCut && start.length >= CUT.least && hasPrefix(texts, start)) return true;
  return BETWEEN.some((between) => {
    for (let at = words.indexOf(between); at >= 0; at = words.indexOf(between, at + 1)) {
      if (texts.has(words.slice(0, at)) && isLogged(words.slice(at + between.length), texts)) return true;
    }
    return false;
  });
}
