/**
 * Signatures of people by ssh keys: `ssh-keygen -Y sign` and `-Y verify`.
 *
 *     ~/.config/holdfast/signing.json       the key of the person on this machine, and their name
 *     ~/.config/holdfast/allowed_signers    whose keys count here, in the format of OpenSSH
 *
 * Both files are outside every repository: a pull must not choose whom this machine believes. A file of
 * signers that lies inside the project, belongs to another user or can be written by others is ignored.
 *
 * A signature has a purpose (the `namespace` of OpenSSH). A signature for one purpose is worth nothing for
 * the other, and a key may be allowed for one of them only.
 *
 * | purpose | proves |
 * |---|---|
 * | `act` | the holder of the key did this act on a goal: it counts in other clones at once |
 * | `answer` | the holder of the key answered for this call of a tool that requires an approver |
 *
 * Without `ssh-keygen`, every signature counts as missing, and a warning says so.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import { quoteValue, shellWord } from "../model/names.ts";

export type Purpose = "act" | "answer";

const NAMESPACES: Readonly<Record<Purpose, string>> = {
  act: "holdfast-act",
  answer: "holdfast-answer",
};

export interface Signer {
  readonly name: string;
  readonly purposes: readonly Purpose[];
  /** `ssh-ed25519 AAAA…`. */
  readonly key: string;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$/;
const KEY = /^(?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/]{40,16000}={0,2}(?= |$)/;
const MAX_FILE_BYTES = 1 << 20;
/** A person may have to touch a key or type a passphrase. */
const SIGN_MS = 120_000;
const VERIFY_MS = 10_000;
/** The armored text of a signature. OpenSSH wraps it at 70 columns. */
const SIGNATURE =
  /^-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=]{1,76}\n){1,200}-----END SSH SIGNATURE-----\n?$/;

function settingsFolder(): string {
  const { XDG_CONFIG_HOME: named = "" } = process.env;
  return join(isAbsolute(named) ? named : join(homedir(), ".config"), "holdfast");
}

const signersPath = (): string => join(settingsFolder(), "allowed_signers");
const ownKeyPath = (): string => join(settingsFolder(), "signing.json");

export interface OwnKey {
  readonly name: string;
  /** The path of a private key, or of a public key whose private half an ssh agent holds. */
  readonly key: string;
}

/** The key that signs the acts of this machine's person; null if signing is off. */
export function ownKey(): OwnKey | null {
  const text = readIfThere(ownKeyPath());
  if (text === null) return null;
  try {
    const { name, key } = JSON.parse(text) as Partial<OwnKey>;
    if (typeof name === "string" && NAME.test(name) && typeof key === "string") return { name, key };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new HoldfastError("INPUT_INVALID", `${ownKeyPath()}: not the settings of a signing key`, {
    hint: "Set it again: holdfast sign --key <file>. Or remove that file.",
  });
}

/** Signs with this key from now on, and allows it on this machine. Null switches signing off. */
export function useKey(own: OwnKey | null): void {
  if (own === null) {
    rmSync(ownKeyPath(), { force: true });
    return;
  }
  const key = resolve(own.key);
  allowSigner({ name: own.name, key: publicKey(key), purposes: ["act"] });
  writeSettings(ownKeyPath(), `${JSON.stringify({ name: own.name, key })}\n`);
}

export function checkName(name: string): string {
  if (NAME.test(name)) return name;
  throw new HoldfastError("NAME_INVALID", `signer ${quoteValue(name)}: not a valid name`, {
    hint: "Use 1 to 64 letters, digits or . _ @ + -, beginning with a letter or digit.",
  });
}

/** The public key in a text, a `.pub` file, or the `.pub` file beside a private key. */
export function publicKey(typed: string): string {
  const own = KEY.exec(typed.trim())?.[0];
  if (own !== undefined) return own;
  for (const file of [typed, `${typed}.pub`]) {
    const found = KEY.exec(readIfThere(file)?.trim() ?? "")?.[0];
    if (found !== undefined) return found;
  }
  throw new HoldfastError("INPUT_INVALID", `${quoteValue(typed)}: no public ssh key`, {
    hint: "Name a file such as ~/.ssh/id_ed25519.pub, or pass the key. Make one: ssh-keygen -t ed25519",
  });
}

export function allowSigner({ name, key, purposes }: Signer): void {
  const others = readSigners().filter((each) => each.name !== name || each.key !== key);
  const same = readSigners().find((each) => each.name === name && each.key === key);
  const all = [...new Set([...(same?.purposes ?? []), ...purposes])].sort();
  writeSigners([...others, { name: checkName(name), key, purposes: all }]);
}

/** Takes the purpose from all keys of a name, and returns how many had it. */
export function removeSigner(name: string, purpose: Purpose): number {
  const signers = readSigners();
  const had = signers.filter((each) => each.name === name && each.purposes.includes(purpose));
  const left = signers.map((each) =>
    had.includes(each) ? { ...each, purposes: each.purposes.filter((one) => one !== purpose) } : each,
  );
  if (had.length > 0) writeSigners(left.filter(({ purposes }) => purposes.length > 0));
  return had.length;
}

/** The signers that `allowSigner` wrote. Other lines of the file count too, but are not listed. */
export function readSigners(): Signer[] {
  return linesOfSigners().flatMap((line) => signerOf(line) ?? []);
}

function linesOfSigners(): string[] {
  return (readIfThere(signersPath()) ?? "").split("\n").filter((line) => line !== "");
}

function signerOf(line: string): Signer | null {
  const [, name = "", listed = "", key = ""] = /^(\S+) namespaces="([a-z,-]+)" (.+)$/.exec(line) ?? [];
  const all = Object.entries(NAMESPACES) as [Purpose, string][];
  const purposes = all.filter(([, value]) => listed.split(",").includes(value)).map(([each]) => each);
  const found = KEY.exec(key)?.[0];
  return NAME.test(name) && found !== undefined && purposes.length > 0
    ? { name, purposes, key: found }
    : null;
}

function writeSigners(signers: readonly Signer[]): void {
  const foreign = linesOfSigners().filter((line) => signerOf(line) === null);
  const own = signers.map(({ name, purposes, key }) => {
    return `${name} namespaces="${purposes.map((each) => NAMESPACES[each]).join(",")}" ${key}`;
  });
  writeSettings(signersPath(), [...foreign, ...own, ""].join("\n"));
}

function writeSettings(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, text, { mode: 0o600 });
}

function readIfThere(path: string): string | null {
  try {
    const stats = statSync(path);
    return stats.isFile() && stats.size <= MAX_FILE_BYTES ? readFileSync(path, "utf8") : null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // EACCES: the home of another user, as under `sudo -u`. None of its keys are ours.
    if (["ENOENT", "ENOTDIR", "ENAMETOOLONG", "EACCES"].includes(code ?? "")) return null;
    throw error;
  }
}

/** The file of signers, unless a repository or another user could have written it. `root`: the project. */
function trustedSigners(
  root: string | null,
): { readonly file: string } | { readonly problem: string } | null {
  const path = signersPath();
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats?.isFile()) return null;
  const file = realpathSync(path);
  const inside = root === null ? null : relative(realpathSync(root), file);
  if (inside !== null && !inside.startsWith("..") && !isAbsolute(inside))
    return { problem: "it is inside the project, where a pull could write it" };
  const uid = process.geteuid?.();
  if (uid !== undefined && stats.uid !== uid && stats.uid !== 0)
    return { problem: "it belongs to another user" };
  if (uid !== undefined && (stats.mode & 0o022) !== 0) return { problem: "other users can write it" };
  return { file };
}

/** Signs a text with a person's key. OpenSSH may ask for a passphrase or a touch on the terminal. */
export async function signText(own: OwnKey, purpose: Purpose, text: string): Promise<string> {
  const { code, out, error } = await runKeygen(
    ["-Y", "sign", "-q", "-f", own.key, "-n", NAMESPACES[purpose]],
    text,
    SIGN_MS,
  );
  if (code === 0 && SIGNATURE.test(out)) return out;
  const why = error.trim().split("\n").at(-1) ?? "";
  throw new HoldfastError("SIGNING_FAILED", `${own.key}: ssh-keygen did not sign (${quoteValue(why)})`, {
    hint: "Load the key: ssh-add. Or choose another one: holdfast sign --key <file>",
    data: { key: own.key },
  });
}

export interface Signed {
  readonly purpose: Purpose;
  readonly text: string;
  readonly signature: string;
}

/** Verifies signatures of one project. `warn` gets the reason once if none of them can count. */
export class SignatureCheck {
  private readonly root: string | null;
  private readonly warn: (error: unknown) => void;
  private hasWarned = false;
  private signers: { readonly file: string; readonly text: string } | null | undefined;

  constructor(root: string | null, warn: (error: unknown) => void) {
    this.root = root;
    this.warn = warn;
  }

  /** The name of the allowed signer of the text; null if the signature does not count. */
  async signerOf({ purpose, text, signature }: Signed): Promise<string | null> {
    const signers = this.load();
    if (signers === null || !SIGNATURE.test(signature)) return null;
    // Starting a program for each forged signature would be slow: most of them name a key of their own.
    if (!mayBeAllowed(signature, signers.text)) return null;
    const folder = mkdtempSync(join(tmpdir(), "holdfast-signature-"));
    try {
      const file = join(folder, "signature");
      writeFileSync(file, signature, { mode: 0o600 });
      const found = await runKeygen(["-Y", "find-principals", "-s", file, "-f", signers.file], "", VERIFY_MS);
      const names = found.code === 0 ? found.out.split("\n").filter((name) => name !== "") : [];
      for (const name of names.slice(0, 8)) {
        const asked = ["-Y", "verify", "-f", signers.file, "-I", name, "-n", NAMESPACES[purpose], "-s", file];
        if ((await runKeygen(asked, text, VERIFY_MS)).code === 0) return name;
      }
      return null;
    } catch (error) {
      this.warnOnce(error);
      return null;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  private load(): { readonly file: string; readonly text: string } | null {
    if (this.signers !== undefined) return this.signers;
    this.signers = null;
    const found = trustedSigners(this.root);
    if (found && "problem" in found) {
      const path = signersPath();
      const message = `${path}: ignored (${found.problem})`;
      const mend = `Move it out of the project, or: chmod go-w ${shellWord(path)}`;
      const hint = `${mend}. Until then no signature counts.`;
      this.warnOnce(new HoldfastError("SIGNERS_IGNORED", message, { hint, data: { path } }));
    } else if (found) this.signers = { ...found, text: readIfThere(found.file) ?? "" };
    return this.signers;
  }

  private warnOnce(error: unknown): void {
    if (!this.hasWarned) this.warn(error);
    this.hasWarned = true;
  }
}

/** True if the file lists the key inside the signature, or an authority that may have certified it. */
function mayBeAllowed(signature: string, signers: string): boolean {
  const blob = Buffer.from(signature.replace(/-----.*-----|\n/g, ""), "base64");
  // `SSHSIG`, a version of 4 bytes, then the public key with its length.
  if (blob.length < 14 || blob.toString("latin1", 0, 6) !== "SSHSIG") return false;
  const length = blob.readUInt32BE(10);
  const key = blob
    .subarray(14, 14 + length)
    .toString("base64")
    .replace(/=+$/, "");
  return (key.length > 40 && signers.includes(key)) || /\bcert-authority\b/.test(signers);
}

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
}

function runKeygen(args: readonly string[], input: string, timeout: number): Promise<Ran> {
  return new Promise((done, failed) => {
    // `askpass` programs would open a window from a hook or a server.
    const env = { ...process.env, SSH_ASKPASS_REQUIRE: "never" };
    const child = spawn("ssh-keygen", args, { env, timeout, stdio: ["pipe", "pipe", "pipe"] });
    const out = collected(child, "stdout");
    const error = collected(child, "stderr");
    child.once("error", (cause) => failed(keygenMissing(cause)));
    child.once("close", (code) => done({ code, out: out(), error: error() }));
    // A program that ended early does not read its input: its exit code tells.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
  });
}

const MAX_OUTPUT = 65_536;

function collected(child: ChildProcess, name: "stdout" | "stderr"): () => string {
  let text = "";
  child[name]?.setEncoding("utf8").on("data", (chunk: string) => {
    if (text.length < MAX_OUTPUT) text += chunk;
  });
  return () => text;
}

function keygenMissing(cause: Error): HoldfastError {
  return new HoldfastError("SIGNING_FAILED", `ssh-keygen cannot be started (${cause.message})`, {
    hint: "Install OpenSSH (Debian: apt-get install openssh-client). Until then nothing counts as signed.",
    cause,
  });
}
