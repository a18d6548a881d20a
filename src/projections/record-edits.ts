/** Hand edits of record files: a new decision supersedes, a blocker changes status, a session gets notes. */

import { noteActs, sessionActs } from "../goal/index.ts";
import { DECISION } from "../model/goal/index.ts";
import { sameJson } from "../model/json.ts";
import { type Change, change, type EditAct, unless } from "./edit-changes.ts";
import type { RecordKind, RecordPage } from "./file-reading.ts";
import { editableColumns, readContent } from "./record-rows.ts";

const BY_HAND = "Written by hand.";
const SEAL = ["goal", "revision", "digest"];

export function recordChanges(kind: RecordKind, from: RecordPage, to: RecordPage): Change[] {
  const id = String(from.fields["id"]);
  if (id !== to.fields["id"]) return [change("id", to.fields["id"], `the id of ${id} is fixed`, null)];
  const own = OWN[kind];
  const names = new Set([...Object.keys(from.fields), ...Object.keys(to.fields)]);
  const fixed = [...names].filter(
    (name) =>
      !SEAL.includes(name) && !own.fields.includes(name) && !sameJson(from.fields[name], to.fields[name]),
  );
  const sections = new Set([...from.sections.keys(), ...to.sections.keys()]);
  const strange = [...sections].filter(
    (name) => !own.sections.test(name) && from.sections.get(name) !== to.sections.get(name),
  );
  return [
    ...own.changes(id, from, to),
    ...fixed.map((name) => change(`${id}.${name}`, to.fields[name], `${id}: ${name} is fixed`, null)),
    ...strange.map((name) =>
      change(`${id} ${name}`, to.sections.get(name) ?? null, `${id}: section ${name}`, null),
    ),
  ];
}

interface Own {
  readonly fields: readonly string[];
  readonly sections: RegExp;
  changes(id: string, from: RecordPage, to: RecordPage): Change[];
}

const OWN: Readonly<Record<RecordKind, Own>> = {
  decision: {
    fields: [...editableColumns(DECISION).keys()],
    sections: /^(?:Context|Decision|Reason)$/,
    changes: decisionChanges,
  },
  blocker: { fields: ["status"], sections: /^(?:Workaround|Resolution)$/, changes: blockerChanges },
  session: { fields: [], sections: /^(?:Note|Issue) \d+$/, changes: sessionChanges },
};

function decisionChanges(id: string, from: RecordPage, to: RecordPage): Change[] {
  const content = ({ fields, sections }: RecordPage): Record<string, unknown> =>
    readContent(DECISION, fields, sections);
  const input = content(to);
  if (sameJson(content(from), input)) return [];
  const act = unless(
    ({ decisions }) => {
      const later = decisions.get(decisions.get(id)?.supersededBy ?? "");
      return later?.decision === input["decision"] && later?.reason === input["reason"];
    },
    (state, by) =>
      noteActs.decide(state, by, input as unknown as noteActs.DecisionInput, String(input["date"]), id),
  );
  return [change(`decision:${id}`, input, `${id} superseded by what was written into its file`, act)];
}

function blockerChanges(id: string, from: RecordPage, to: RecordPage): Change[] {
  const status = to.fields["status"];
  if (status === from.fields["status"]) {
    const isSame = [...OWN_SECTIONS].every((name) => from.sections.get(name) === to.sections.get(name));
    return isSame ? [] : [change(`blocker text:${id}`, null, `${id}: change its status as well`, null)];
  }
  const acts: Readonly<Record<string, EditAct>> = {
    active: (state, by) => noteActs.identify(state, by, id),
    bypassed: (state, by) =>
      noteActs.bypass(state, by, { blocker: id, workaround: to.sections.get("Workaround") ?? BY_HAND }),
    resolved: (state, by) =>
      noteActs.resolve(state, by, { blocker: id, resolution: to.sections.get("Resolution") ?? BY_HAND }),
  };
  const act = acts[String(status)] ?? null;
  return [change(`blocker:${id}`, status, `${id} ${String(status)}`, act)];
}

const OWN_SECTIONS = ["Workaround", "Resolution"] as const;

function sessionChanges(id: string, from: RecordPage, to: RecordPage): Change[] {
  const found: Change[] = [];
  for (const [name, text] of to.sections) {
    const isNote = name.startsWith("Note ");
    if (!OWN.session.sections.test(name) || from.sections.get(name) === text) continue;
    const input = isNote ? { session: id, notes: text } : { session: id, issues: [text] };
    const act = unless(
      ({ history }) => (isNote ? history.get(id)?.notes : history.get(id)?.issues)?.includes(text) === true,
      (state, by) => sessionActs.noteSession(state, by, input),
    );
    const isNew = !from.sections.has(name);
    found.push(change(`${id} ${name}`, text, `${id}: ${name}`, isNew ? act : null));
  }
  for (const name of from.sections.keys()) {
    if (OWN.session.sections.test(name) && !to.sections.has(name)) {
      found.push(change(`${id} ${name}`, null, `${id}: ${name} was removed, but it happened`, null));
    }
  }
  return found;
}
