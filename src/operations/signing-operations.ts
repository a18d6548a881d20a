/** Operations on ssh keys: the key that signs a person's acts, and the keys that count on this machine. */

import { userInfo } from "node:os";
import * as z from "zod";
import { type Goal, goalCore } from "../goal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { type Actor, SIGNED } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import {
  allowSigner,
  checkName,
  ownKey,
  type Purpose,
  publicKey,
  readSigners,
  removeSigner,
  useKey,
} from "../signing/index.ts";
import { goal } from "./goal-operations.ts";
import { mutation, query } from "./operation.ts";

const text = z.string();
const signerRow = z.strictObject({ name: text, key: text });
const signerInput = z.strictObject({
  name: text,
  /** A public key, or a file that holds one. */
  key: text,
});

/** One signature covers so many events: the schema of the event has this limit. */
const AT_ONCE = 1_000;

/** The acts of people that were written here and have no signature. */
async function unsignedActs(handle: Goal): Promise<{ uid: string; by: Actor }[]> {
  const { origins, signed } = handle.state;
  const found: { uid: string; by: Actor }[] = [];
  for await (const { uid, type, data } of goalCore(handle).entries()) {
    const by = data["by"] as unknown as Actor;
    const isOpen = type !== SIGNED && !origins.has(uid) && !signed.has(uid);
    if (isOpen && by.role === "human") found.push({ uid, by });
  }
  return found;
}

function rowsFor(purpose: Purpose): z.input<typeof signerRow>[] {
  return readSigners()
    .filter(({ purposes }) => purposes.includes(purpose))
    .map(({ name, key }) => ({ name, key }));
}

function addSigner({ name, key }: z.output<typeof signerInput>, purpose: Purpose) {
  const found = publicKey(key);
  allowSigner({ name: checkName(name), key: found, purposes: [purpose] });
  return { name, key: found };
}

function takeSigner(name: string, purpose: Purpose, what: "signer" | "approver") {
  const removed = removeSigner(name, purpose);
  if (removed > 0) return { name, removed };
  const known = rowsFor(purpose).map((each) => each.name);
  throw new HoldfastError("INPUT_INVALID", `${what} ${JSON.stringify(name)}: not known on this machine`, {
    hint: `${didYouMean(name, known)}List them: holdfast ${what} list`,
  });
}

function defaultName(): string {
  try {
    return checkName(userInfo().username);
  } catch {
    // No user entry, or a name that no file of signers can hold.
    return "me";
  }
}

export const signingOperations = [
  mutation("sign", "Sign your acts with an ssh key, so that they count in other clones at once", {
    who: "person",
    vouches: true,
    input: z.strictObject({
      goal,
      /** Sign with this key from now on: a private key, or a public one whose agent is running. */
      key: text.optional(),
      name: text.optional(),
      off: z.boolean().optional(),
    }),
    result: z.strictObject({
      key: text.nullable(),
      name: text.nullable(),
      /** The line that other people run to allow the key. */
      publicKey: text.nullable(),
      signed: z.int(),
    }),
    async run(context, { goal: id, key, name, off = false }) {
      if (off) useKey(null);
      else if (key !== undefined) useKey({ key, name: checkName(name ?? defaultName()) });
      const own = ownKey();
      if (own === null) {
        if (off) return { key: null, name: null, publicKey: null, signed: 0 };
        throw new HoldfastError("INPUT_INVALID", "sign: no key is set", {
          hint: "Choose one: holdfast sign --key ~/.ssh/id_ed25519",
        });
      }
      const about = { key: own.key, name: own.name, publicKey: publicKey(own.key) };
      if (key !== undefined) return { ...about, signed: 0 };
      const handle = await context.goal(id);
      const acts = await unsignedActs(handle);
      for (let first = 0; first < acts.length; first += AT_ONCE) {
        const some = acts.slice(first, first + AT_ONCE).map(({ uid }) => uid);
        await goalCore(handle).sign(context.by, some);
      }
      await context.syncFolder(handle);
      return { ...about, signed: acts.length };
    },
  }),
  mutation("signer add", "Let the signed acts of a person count on this machine", {
    who: "person",
    vouches: true,
    input: signerInput,
    result: signerRow,
    run: async (_, input) => addSigner(input, "act"),
  }),
  mutation("signer remove", "Let the acts that a person signs wait for review again", {
    who: "person",
    vouches: true,
    input: z.strictObject({ name: text }),
    result: z.strictObject({ name: text, removed: z.int() }),
    run: async (_, { name }) => takeSigner(name, "act", "signer"),
  }),
  mutation("approver add", "Let a person's key answer for tools that require an approver", {
    who: "person",
    vouches: true,
    input: signerInput,
    result: signerRow,
    run: async (_, input) => addSigner(input, "answer"),
  }),
  mutation("approver remove", "Let a person's key no longer answer for tools that require an approver", {
    who: "person",
    vouches: true,
    input: z.strictObject({ name: text }),
    result: z.strictObject({ name: text, removed: z.int() }),
    run: async (_, { name }) => takeSigner(name, "answer", "approver"),
  }),
  query("approver list", "List the people whose keys answer for tools that require an approver", {
    who: "person",
    input: z.strictObject({}),
    result: z.strictObject({ approvers: z.array(signerRow) }),
    run: async () => ({ approvers: rowsFor("answer") }),
  }),
  query("signer list", "List the people whose signed acts count on this machine", {
    who: "person",
    input: z.strictObject({}),
    result: z.strictObject({ signers: z.array(signerRow) }),
    run: async () => ({ signers: rowsFor("act") }),
  }),
];
