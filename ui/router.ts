/** Addresses within the page: `#/sessions?status=crashed`. Filters are part of the address. */

import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export interface Route {
  readonly page: string;
  /** The rest of the path, decoded: a session's or a goal's id. */
  readonly id: string | null;
  readonly query: Readonly<Record<string, string>>;
}

export const route = computed<Route>(() => {
  const [path = "", search = ""] = hash.value.replace(/^#\/?/, "").split("?");
  const [page = "", ...rest] = path.split("/");
  const id = rest.join("/");
  return {
    page: page || "inbox",
    id: id === "" ? null : decode(id),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
});

/** An address that a person mistyped is no reason to stop. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(
  page: string,
  id?: string | null,
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const set = Object.entries(query).filter(
    (each): each is [string, string] => each[1] !== undefined && each[1] !== "",
  );
  const search = new URLSearchParams(set).toString();
  return `#/${page}${id == null ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`;
}

export function go(address: string): void {
  location.hash = address;
}

/** Changes filters without a new entry in the history. */
export function setQuery(change: Readonly<Record<string, string | undefined>>): void {
  const { page, id, query } = route.value;
  history.replaceState(null, "", link(page, id, { ...query, ...change }));
  hash.value = location.hash;
}
