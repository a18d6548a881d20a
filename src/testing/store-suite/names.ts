import assert from "node:assert/strict";
import {
  accept,
  grant,
  listAll,
  outcomeIs,
  removeStream,
  streamNames,
  take,
  valuesOf,
  write,
} from "./acts.ts";
import type { Cases } from "./trial.ts";

const LONG = "x".repeat(127);

/** All valid ids, each close to another, or a name that something underneath gives a meaning to. */
const HOSTILE = [
  "a",
  "A",
  "a.",
  "a..",
  "a.b",
  "a_b",
  "a-b",
  "axb",
  "ab",
  "0",
  "00",
  "1e3",
  "NULL",
  "null",
  "true",
  "constructor",
  "toString",
  "hasOwnProperty",
  "valueOf",
  "CON",
  "nul.txt",
  "select",
  `${LONG}y`,
  `${LONG}Y`,
  `${LONG}z`,
  LONG,
];

export const nameCases: Cases = {
  "streams with similar or hostile ids stay apart": async ({ store, reopen }) => {
    for (const id of HOSTILE) await accept(store, write(`session/${id}`, 0, { events: [id] }));
    const reopened = await reopen();
    for (const id of HOSTILE) assert.deepEqual(await valuesOf(reopened, `session/${id}`), [id]);
    const expected = HOSTILE.map((id) => `session/${id}`).sort();
    assert.deepEqual((await streamNames(reopened)).sort(), expected);
  },

  "namespaces with similar or hostile names stay apart": async ({ store, reopen }) => {
    for (const namespace of HOSTILE)
      await accept(store, write("session/s", 0, { events: [namespace] }), { namespace });
    const reopened = await reopen();
    for (const namespace of HOSTILE) {
      assert.deepEqual(await valuesOf(reopened, "session/s", { namespace }), [namespace]);
      assert.deepEqual(await streamNames(reopened, { namespace }), ["session/s"]);
    }
  },

  "stream kinds with similar or hostile names stay apart": async ({ store }) => {
    for (const kind of HOSTILE) await accept(store, write(`${kind}/id`, 0));
    for (const kind of HOSTILE) assert.deepEqual(await streamNames(store, { kind }), [`${kind}/id`]);
  },

  "leases with similar or hostile names stay apart": async ({ store }) => {
    for (const id of HOSTILE) await grant(store, `session/${id}`, id);
    for (const id of HOSTILE) {
      const { lease } = outcomeIs(await take(store, `session/${id}`, "another"), "held");
      assert.equal(lease.holder?.owner, id);
    }
    const listed = (await listAll(store, { of: "leases", limit: 7 })).map(({ name }) => name);
    assert.deepEqual([...listed].sort(), HOSTILE.map((id) => `session/${id}`).sort());
  },

  "owners that differ only in case are different owners": async ({ store }) => {
    await grant(store, "session/a", "Owner");
    outcomeIs(await take(store, "session/a", "owner"), "held");
  },

  "removing a stream leaves those with similar names": async ({ store }) => {
    for (const id of HOSTILE) await accept(store, write(`session/${id}`, 0));
    await removeStream(store, "session/a_b");
    await removeStream(store, "session/A");
    const left = HOSTILE.filter((id) => id !== "a_b" && id !== "A");
    assert.deepEqual((await streamNames(store)).sort(), left.map((id) => `session/${id}`).sort());
  },

  "statuses, goals and folds are compared as they are": async ({ store }) => {
    for (const [index, id] of HOSTILE.entries()) {
      await accept(store, write(`session/s${index}`, 0, { facets: { status: id, goal: id } }));
    }
    for (const [index, id] of HOSTILE.entries()) {
      assert.deepEqual(await streamNames(store, { status: id, goal: id }), [`session/s${index}`]);
    }
  },
};
