/** Requests to the server, and the feed of changes. */

import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { OperationName, ResultOf } from "../src/operations/index.ts";

export interface Me {
  readonly csrf: string;
  readonly readOnly: string | null;
  readonly acts: readonly string[];
  readonly store: string;
  readonly by: string;
  /** How commands for this store are typed: `npx holdfast`, and ` --store other.db` if it was named. */
  readonly typed: { readonly program: string; readonly store: string };
}

/** Null until the server has let us in. */
export const me = signal<Me | null>(null);
/** Why it has not, if it refused. */
export const shutOut = signal<string | null>(null);
export const isLive = signal(false);
/** True once the feed was there and is not any more: what the page shows may be old. */
export const isStale = signal(false);
export const canAct = computed(() => me.value !== null && me.value.readOnly === null);

export class Failure extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;

  constructor(status: number, { code, message, hint }: { code: string; message: string; hint: string }) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

const INVALID = "This page is no longer valid. Open the address that holdfast ui printed.";

async function answerOf(response: Response): Promise<unknown> {
  const body: unknown = await response.json().catch(() => ({}));
  if (response.ok) return body;
  if (response.status === 401) shutOut.value = INVALID;
  throw new Failure(response.status, {
    code: "UNKNOWN",
    message: `status ${response.status}`,
    hint: "",
    ...(body as object),
  });
}

function post(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  const all = { "Content-Type": "application/json", "X-Holdfast-CSRF": me.value?.csrf ?? "", ...headers };
  return fetch(path, { method: "POST", headers: all, body: JSON.stringify(body), ...(signal && { signal }) });
}

/** Exchanges the token in the address for a cookie, and removes it from the address and the history. */
export async function logIn(): Promise<void> {
  const [, token] = /[#&]token=([\w-]+)$/.exec(location.hash) ?? [];
  if (token !== undefined)
    history.replaceState(null, "", location.hash.replace(/[#&]token=[\w-]+$/, "") || "#/");
  try {
    const response = token === undefined ? fetch("/api/me") : post("/api/login", { token });
    me.value = (await answerOf(await response)) as Me;
  } catch (error) {
    shutOut.value ??=
      error instanceof Failure ? error.message : "The server does not answer. Start it again: holdfast ui";
  }
}

const pathOf = (name: string): string => `/api/op/${name.replaceAll(" ", "-")}`;

export async function ask<Name extends OperationName>(
  name: Name,
  input: object = {},
): Promise<ResultOf<Name>> {
  const given = Object.fromEntries(
    Object.entries(input).filter(([, value]) => value !== undefined && value !== ""),
  );
  const query = Object.keys(given).length === 0 ? "" : `?input=${encodeURIComponent(JSON.stringify(given))}`;
  return (await answerOf(await fetch(pathOf(name) + query))) as ResultOf<Name>;
}

export async function act<Name extends OperationName>(name: Name, input: object): Promise<ResultOf<Name>> {
  return (await answerOf(await post(pathOf(name), input))) as ResultOf<Name>;
}

// ---- Live changes

type Listener = (streams: readonly string[] | null) => void;
const listeners = new Set<Listener>();
const RETRY_MS = 1_000;

/** Reads the feed for ever. `null` means that anything may have changed. */
export async function followChanges(): Promise<void> {
  for (let lastId = ""; ; ) {
    try {
      const response = await post("/api/live", {}, lastId === "" ? {} : { "Last-Event-ID": lastId });
      if (response.status === 401) {
        shutOut.value = INVALID;
        return;
      }
      if (response.ok && response.body) {
        isLive.value = true;
        isStale.value = false;
        await readFrames(response.body, (frame) => {
          lastId = frame.id || lastId;
          const { streams } = JSON.parse(frame.data || '{"streams":[]}') as { streams: string[] };
          if (frame.event !== "") tell(frame.event === "reset" ? null : streams);
        });
      }
    } catch {
      // The server ended or the machine slept: ask again below.
    }
    isStale.value = isLive.value || isStale.value;
    isLive.value = false;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function tell(streams: readonly string[] | null): void {
  for (const listener of listeners) listener(streams);
}

async function readFrames(
  body: ReadableStream<Uint8Array>,
  take: (frame: { id: string; event: string; data: string }) => void,
): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (let text = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const frames = text.split("\n\n");
    text = frames.pop() ?? "";
    for (const each of frames) {
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(each)?.[1] ?? "";
      take({ id: field("id"), event: field("event"), data: field("data") });
    }
  }
}

export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export interface Asked<Result> {
  readonly data: Result | null;
  readonly error: Failure | null;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

const MIN_PAUSE_MS = 250;

/** Loads an operation's answer, and loads it again after changes that `concerns` (all of them unless given). */
export function useAnswer<Name extends OperationName>(
  name: Name,
  input: object | null = {},
  concerns: (stream: string) => boolean = () => true,
): Asked<ResultOf<Name>> {
  const key = input && JSON.stringify([name, input]);
  const [found, setFound] = useState<{
    key: string | null;
    data: ResultOf<Name> | null;
    error: Failure | null;
  }>({
    key: null,
    data: null,
    error: null,
  });
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (input === null) return undefined;
    let isOver = false;
    let isBusy = false;
    let isDirty = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async (): Promise<void> => {
      isBusy = true;
      isDirty = false;
      const next = await ask(name, input).then(
        (data) => ({ key, data, error: null }),
        (error: unknown) => ({ key, data: null, error: error instanceof Failure ? error : lost() }),
      );
      if (isOver) return;
      setFound((before) => (next.error && before.key === key ? { ...before, error: next.error } : next));
      timer = setTimeout(() => {
        isBusy = false;
        if (isDirty) void load();
      }, MIN_PAUSE_MS);
    };
    void load();
    const stop = onChange((streams) => {
      if (streams !== null && !streams.some(concerns)) return;
      isDirty = true;
      if (!isBusy) void load();
    });
    return () => {
      isOver = true;
      clearTimeout(timer);
      stop();
    };
  }, [key, count]);
  const isCurrent = found.key === key;
  return {
    // An answer to the last question stays until the next is there, so that nothing flickers.
    data: found.data,
    error: isCurrent ? found.error : null,
    isLoading: !isCurrent,
    reload: () => setCount(count + 1),
  };
}

function lost(): Failure {
  return new Failure(0, {
    code: "OFFLINE",
    message: "The server does not answer.",
    hint: "Start it again: holdfast ui",
  });
}
