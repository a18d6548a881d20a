/** Small parts that every page uses. */

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Failure, me } from "./api.ts";
import { ageOf, json, moment } from "./text.ts";

const TONES: Readonly<Record<string, string>> = {
  ...{ completed: "good", done: "good", landed: "good", running: "live", accepted: "good", granted: "good" },
  ...{
    crashed: "bad",
    failed: "bad",
    unknown: "bad",
    waiting: "warn",
    blocked: "bad",
    stale: "warn",
    error: "bad",
  },
  ...{ in_progress: "live", submitted: "warn", issued: "live", unsure: "warn", notYet: "warn", never: "bad" },
  refuted: "bad",
  confirmed: "good",
};

export function Pill({ word, tone }: { word: string; tone?: string }): JSX.Element {
  return <span class={`pill ${tone ?? TONES[word] ?? ""}`}>{word.replaceAll("_", " ")}</span>;
}

/** The same word in a list: a dot and a column of one width, so that rows stay calm and aligned. */
export function Mark({ word, tone }: { word: string; tone?: string }): JSX.Element {
  return <span class={`mark ${tone ?? TONES[word] ?? ""}`}>{word.replaceAll("_", " ")}</span>;
}

/** How long ago something was. `words` has a `#` for it. */
export function Age({ at, words = "#" }: { at: string | null; words?: string }): JSX.Element | null {
  if (at === null) return null;
  return (
    <time dateTime={at} title={moment(at)} class="age">
      {words.replace("#", ageOf(at))}
    </time>
  );
}

/** Commands that need no store. */
const WITHOUT_STORE = /^holdfast (?:demo|new)\b/;

/** A command as it works in the terminal of the person who started the page. */
export function typedLine(line: string): string {
  const { program, store } = me.value?.typed ?? { program: "holdfast", store: "" };
  return `${line.replace(/^holdfast/, program)}${WITHOUT_STORE.test(line) ? "" : store}`;
}

/** The command that does the same, or several, ready to be copied. Each is written as `holdfast …`. */
export function Command({ line }: { line: string | readonly string[] }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  const text = [line].flat().map(typedLine).join("\n");
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <div class="command">
      <code>{text}</code>
      <button type="button" class="quiet" onClick={() => void copy()} aria-label={`Copy the command ${text}`}>
        {isCopied ? "copied" : "copy"}
      </button>
    </div>
  );
}

export function Problem({ error }: { error: Failure | null }): JSX.Element | null {
  if (error === null) return null;
  return (
    <div class="problem" role="alert">
      <strong>{error.message}</strong>
      {error.hint === "" ? null : <p>{error.hint}</p>}
    </div>
  );
}

/** Shown where nothing is yet: what would be here, and how it gets here. */
export function Empty({
  title,
  children,
  line,
}: {
  title: string;
  children?: ComponentChildren;
  line?: string;
}): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{children}</p>
      {line === undefined ? null : <Command line={line} />}
    </div>
  );
}

const ONE_LINE = 60;

/** JSON, on one line if it fits there. */
export function Value({ value }: { value: unknown }): JSX.Element {
  const line = json(value);
  const text = typeof value === "string" || line.length <= ONE_LINE ? line : json(value, 2);
  return <pre class="value">{text}</pre>;
}

export function Field({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="field">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A modal dialog. The browser traps the focus and closes it by Escape. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => (before as HTMLElement | null)?.focus?.();
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide ? "wide" : ""}
      aria-labelledby="dialog-title"
      onClose={props.onClose}
    >
      <header class="dialog-head">
        <h2 id="dialog-title">{props.title}</h2>
        <button type="button" class="quiet" onClick={() => element.current?.close()}>
          close
        </button>
      </header>
      {props.children}
    </dialog>
  );
}

/** Calls `load` shortly before the end of a list comes into view. */
export function More({
  isBusy,
  load,
  label,
}: {
  isBusy: boolean;
  load: () => void;
  label: string;
}): JSX.Element {
  const element = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting) && !isBusy) load();
      },
      { root: element.current?.closest("main") ?? null, rootMargin: "800px" },
    );
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  });
  return (
    <button type="button" ref={element} class="more quiet" disabled={isBusy} onClick={load}>
      {isBusy ? "loading…" : label}
    </button>
  );
}

/** The width of an element, at most `most`: for drawings that fit the screen without a scale. */
export function useRoom(most = Number.MAX_SAFE_INTEGER) {
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(Math.min(900, most));
  useLayoutEffect(() => {
    const { current } = box;
    if (!current) return undefined;
    const look = (): void => setRoom(Math.min(most, Math.max(240, Math.floor(current.clientWidth))));
    const observer = new ResizeObserver(look);
    observer.observe(current);
    return () => observer.disconnect();
  }, [most]);
  return [box, room] as const;
}

/** What happened last, said aloud by screen readers. */
export const notice = signal<{ readonly text: string; readonly isBad: boolean } | null>(null);
let clearing: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, isBad = false): void {
  notice.value = { text, isBad };
  clearTimeout(clearing);
  clearing = setTimeout(() => {
    notice.value = null;
  }, 6_000);
}

/** Keys of a page, unless the reader types into a field or a dialog is open. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { target } = event;
      if (
        target instanceof HTMLElement &&
        target.closest("input, textarea, select, dialog, [contenteditable]")
      )
        return;
      const run = latest.current[event.key];
      if (!run) return;
      event.preventDefault();
      run();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
