/** Text as the page shows it: no character acts on the reader's screen, times are ages. */

import { signal } from "@preact/signals";
import { options, type VNode } from "preact";
import { ALL_HIDDEN } from "../src/model/visible-text.ts";

function visible(text: string): string {
  return text.replace(ALL_HIDDEN, (character) => {
    if (character === "\n" || character === "\t") return character;
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code > 0xffff ? `{${code.toString(16)}}` : code.toString(16).padStart(4, "0")}`;
  });
}

const SHOWN_ATTRIBUTES = ["title", "aria-label", "placeholder", "alt"];

/** Every text passes here on its way to the document, so no component can forget it. */
export function showHiddenCharacters(): void {
  const before = options.vnode;
  const shown = (child: unknown): unknown =>
    typeof child === "string" ? visible(child) : Array.isArray(child) ? child.map(shown) : child;
  options.vnode = (vnode: VNode) => {
    const props = vnode.props as Record<string, unknown>;
    if (props["children"] !== undefined) props["children"] = shown(props["children"]);
    for (const name of SHOWN_ATTRIBUTES)
      if (typeof props[name] === "string") props[name] = shown(props[name]);
    before?.(vnode);
  };
}

/** The time, renewed often enough for ages. */
const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 10_000);

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

export function ageOf(iso: string | null): string {
  return iso === null ? "" : lasting(Math.max(1_000, now.value - Date.parse(iso)));
}

/** `4 min`, `3.2 s`, `80 ms`. */
export function lasting(ms: number): string {
  const unit = UNITS.find(([, size]) => ms >= size);
  if (!unit) return `${Math.round(ms)} ms`;
  const [name, size] = unit;
  const count = ms / size;
  return `${name === "s" && count < 10 ? count.toFixed(1).replace(/\.0$/, "") : Math.floor(count)} ${name}`;
}

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function moment(iso: string): string {
  return LOCAL.format(new Date(iso));
}

/** `13:01:02`, in the reader's time. */
export function clock(iso: string): string {
  const at = new Date(iso);
  return [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

export function json(value: unknown, spaces = 0): string {
  return typeof value === "string" && spaces === 0 ? value : (JSON.stringify(value, null, spaces) ?? "");
}

export function plural(count: number, word: string): string {
  return `${count.toLocaleString()} ${word}${count === 1 ? "" : "s"}`;
}

export function usd(amount: number): string {
  return amount === 0 ? "$0" : amount < 0.01 ? `$${amount.toPrecision(2)}` : `$${amount.toFixed(2)}`;
}

/** The end of a store's address: `sqlite …/.holdfast/store.db`. */
export function shortPlace(address: string): string {
  const [kind = "", path = ""] = address.split(/ (.*)/s);
  const names = path.split("/");
  return !path.startsWith("/") || names.length < 4 ? address : `${kind} …/${names.slice(-2).join("/")}`;
}

/** A word for a shell: quoted if it has to be. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
