/**
 * Known shapes of secrets. Hooks and agents record commands and errors, and `.planning/` takes them to git,
 * where nothing is ever removed. Every pattern starts at a fixed place and has bounded repetitions, so that
 * a search is linear in the length of the text. A secret without a known shape is not found.
 */

/** A pattern begins where no name or number goes on, so that one run of letters is tried once. */
const START = "(?<![A-Za-z0-9_-])";
const NAME = "(?:[A-Za-z0-9]{1,40}[_-]){0,5}";
const NAME_END = "(?:[_-][A-Za-z0-9]{1,20}){0,3}";
const VALUE = (least: number): string =>
  `(?:"[^"\\n]{${least},500}"|'[^'\\n]{${least},500}'|[^\\s"'\\[]{${least},500})`;

/** The first group, if there is one, stays. */
const SHAPES: Readonly<Record<string, RegExp>> = {
  "a private key":
    /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$)/g,
  "an API key": shape("(?:sk|rk|pk)[-_](?=[A-Za-z0-9_-]{0,200}\\d)[A-Za-z0-9_-]{8,250}"),
  "a token of GitHub": shape("(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{16,255})"),
  "a token of GitLab": shape("glpat-[A-Za-z0-9_-]{16,255}"),
  "a key of AWS": shape("(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
  "a token of Slack": shape("(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,255}"),
  "a key of Google": shape("AIza[A-Za-z0-9_-]{30,100}"),
  "a token of npm, Hugging Face or SendGrid": shape(
    "(?:npm_[A-Za-z0-9]{30,100}|hf_[A-Za-z0-9]{30,100}|SG\\.[A-Za-z0-9_-]{16,100}\\.[A-Za-z0-9_-]{16,100})",
  ),
  "a JSON web token": shape("eyJ[A-Za-z0-9_-]{8,4000}\\.[A-Za-z0-9_-]{8,8000}(?:\\.[A-Za-z0-9_-]{0,2000})?"),
  "a password in an address":
    /(?<![A-Za-z0-9+.-])([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:@/]{0,100}:)[^\s@/[]{1,200}(?=@)/gi,
  "a header of authorization": new RegExp(
    `${START}((?:authorization|x-api-key|api-key)["']?\\s{0,3}:\\s{0,3}["']?` +
      `(?:(?:bearer|basic|token)\\s{1,3})?)(?!(?:bearer|basic|token)\\s)[^\\s"'\\[]{6,500}`,
    "gi",
  ),
  "a bearer token": new RegExp(`${START}(bearer\\s{1,3})[A-Za-z0-9._~+/-]{16,500}`, "gi"),
  "a value of a secret": new RegExp(
    `(?<![A-Za-z0-9_])(${NAME}(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?)` +
      `${NAME_END}\\s{0,2}=\\s{0,2})${VALUE(3)}`,
    "gi",
  ),
  "a value of a key": new RegExp(
    `(?<![A-Za-z0-9_])(${NAME}(?:API|ACCESS|PRIVATE|SECRET)?KEY${NAME_END}\\s{0,2}=\\s{0,2})${VALUE(8)}`,
    "gi",
  ),
  "an option with a secret": new RegExp(
    `${START}(--(?:[a-z]{1,20}-){0,4}(?:password|token|secret|api-?key)\\s{1,3})(?!-)${VALUE(3)}`,
    "gi",
  ),
  "a password of curl": /(?<=\s)(-u\s{1,3}[^\s:]{1,100}:)[^\s[]{1,200}/g,
};

function shape(source: string): RegExp {
  return new RegExp(START + source, "g");
}

const REDACTED = "[redacted]";

/** The text with every known secret replaced: `STRIPE_KEY=[redacted] ./deploy`. */
export function redactSecrets(text: string): string {
  return Object.values(SHAPES).reduce((left, pattern) => {
    return left.replace(
      pattern,
      (_whole, kept: unknown) => `${typeof kept === "string" ? kept : ""}${REDACTED}`,
    );
  }, text);
}

/** The kind of the first secret in a text, such as `a private key`; null if none is known. */
export function findSecret(text: string): string | null {
  return Object.entries(SHAPES).find(([, pattern]) => text.search(pattern) >= 0)?.[0] ?? null;
}
