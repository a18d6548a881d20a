/** The page: its frame, the navigation, the keys that work everywhere. */

import { signal } from "@preact/signals";
import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { followChanges, isLive, isStale, logIn, me, shutOut, useAnswer } from "./api.ts";
import { FleetPage } from "./fleet.tsx";
import { Goals } from "./goals.tsx";
import { Inbox } from "./inbox.tsx";
import { Ledger } from "./ledger.tsx";
import { Palette } from "./palette.tsx";
import { Command, Dialog, notice, typedLine, useKeys } from "./parts.tsx";
import { go, link, route } from "./router.ts";
import { SessionPage } from "./session.tsx";
import { Sessions } from "./sessions.tsx";
import { shortPlace, showHiddenCharacters } from "./text.ts";

showHiddenCharacters();

const THEMES = ["auto", "light", "dark"] as const;
const theme = signal<string>(localStorage.getItem("theme") ?? "auto");

function useTheme(): void {
  useEffect(
    () =>
      theme.subscribe((name) => {
        document.documentElement.dataset["theme"] = name;
        localStorage.setItem("theme", name);
      }),
    [],
  );
}

function nextTheme(): void {
  const at = THEMES.indexOf(theme.value as (typeof THEMES)[number]);
  theme.value = THEMES[(at + 1) % THEMES.length] ?? "auto";
}

const NAVIGATION = [
  ["inbox", "Inbox", "i"],
  ["sessions", "Sessions", "s"],
  ["ledger", "Ledger", "e"],
  ["goals", "Goals", "g"],
  ["fleet", "Fleet", "t"],
] as const;

function Frame(): JSX.Element {
  useTheme();
  const { page, id } = route.value;
  const [isOpen, setOpen] = useState(false);
  const [isHelp, setHelp] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const [isGoing, setGoing] = useState(false);
  useKeys(
    isGoing
      ? Object.fromEntries(
          NAVIGATION.map(([name, , key]) => [
            key,
            () => {
              setGoing(false);
              go(link(name));
            },
          ]),
        )
      : { g: () => setGoing(true), "?": () => setHelp(true), t: nextTheme },
  );
  useEffect(() => {
    document.title = `${NAVIGATION.find(([name]) => name === page)?.[1] ?? "Session"} · Holdfast`;
    document.querySelector("main")?.scrollTo(0, 0);
  }, [page, id]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </button>
      <Side page={page} open={() => setOpen(true)} help={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        {me.value?.readOnly == null ? null : <p class="banner">{`Read only: ${me.value.readOnly}`}</p>}
        {isStale.value ? (
          <p class="banner" role="alert">
            The server does not answer, so this page may be out of date. Start it again:{" "}
            <code>{typedLine("holdfast ui")}</code>
          </p>
        ) : null}
        <Page page={page} id={id} />
      </main>
      <div class="notice" role="status" aria-live="polite">
        {notice.value === null ? null : (
          <span class={notice.value.isBad ? "bad" : ""}>{notice.value.text}</span>
        )}
      </div>
      {isOpen ? (
        <Palette
          onClose={() => setOpen(false)}
          more={[{ label: "Change the colours", line: "t", run: nextTheme }]}
        />
      ) : null}
      {isHelp ? <Help onClose={() => setHelp(false)} /> : null}
    </div>
  );
}

function Page({ page, id }: { page: string; id: string | null }): JSX.Element {
  if (page === "session" && id !== null) return <SessionPage key={id} id={id} />;
  if (page === "sessions") return <Sessions />;
  if (page === "ledger") return <Ledger />;
  if (page === "goals") return <Goals id={id} />;
  if (page === "fleet") return <FleetPage />;
  return <Inbox />;
}

function Side({ page, open, help }: { page: string; open: () => void; help: () => void }): JSX.Element {
  const { data } = useAnswer("inbox");
  const count = data?.items.length ?? 0;
  const here = page === "session" ? "sessions" : page;
  return (
    <header class="side">
      <a class="brand" href={link("inbox")}>
        <img src="/icon.svg" alt="" width="22" height="22" />
        <span>Holdfast</span>
      </a>
      <nav aria-label="Pages">
        {NAVIGATION.map(([name, label]) => (
          <a key={name} href={link(name)} aria-current={here === name ? "page" : undefined}>
            <Icon name={name} />
            <span>{label}</span>
            {name === "inbox" && count > 0 ? <span class="count">{count}</span> : null}
          </a>
        ))}
      </nav>
      <div class="side-end">
        <button type="button" class="quiet go-to" onClick={open}>
          <Icon name="search" />
          Go to <kbd>Ctrl K</kbd>
        </button>
        <button type="button" class="quiet" onClick={nextTheme}>{`Colours: ${theme.value}`}</button>
        <button type="button" class="quiet" onClick={help}>
          Keys <kbd>?</kbd>
        </button>
        <p class="store" title={me.value?.store}>
          <span class={isLive.value ? "dot live" : "dot"} aria-hidden="true" />
          {isLive.value ? "live" : "not connected"}
          <br />
          {shortPlace(me.value?.store ?? "")}
        </p>
      </div>
    </header>
  );
}

const SHAPES: Readonly<Record<string, string>> = {
  inbox: "M3 12h5l2 3h4l2-3h5M5 5h14l2 7v7H3v-7z",
  sessions: "M4 6h16M4 12h10M4 18h13",
  ledger: "M6 3h12v18H6zM9 8h6M9 12h6M9 16h3",
  goals: "M4 4h4v16H4zM10 4h4v10h-4zM16 4h4v13h-4z",
  fleet: "M3 17l5-6 4 3 4-7 5 5M3 21h18",
  search: "M10 4a6 6 0 1 0 0 12 6 6 0 0 0 0-12M15 15l5 5",
};

function Icon({ name }: { name: string }): JSX.Element {
  return (
    <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" class="icon">
      <path d={SHAPES[name]} />
    </svg>
  );
}

function Help({ onClose }: { onClose: () => void }): JSX.Element {
  const keys = [
    ["Ctrl K", "go to a page, session, goal or key"],
    ["g then i, s, e, g, t", "Inbox, Sessions, Ledger, Goals, Fleet"],
    ["j, k", "next, previous row"],
    ["Enter", "open or answer"],
    ["x", "select a row"],
    ["l, r, f", "landed, retry, failed"],
    ["a, d", "approve, deny"],
    ["c, r", "confirm or reject what a pull brought"],
    ["r", "resolve a blocker, release a claim, retry a session"],
    ["b", "raise a budget"],
    ["/", "search"],
    ["t", "colours"],
    ["Esc", "close"],
  ] as const;
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {keys.map(([key, about]) => (
          <div key={key} class="field">
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function Door(): JSX.Element {
  return (
    <main class="door">
      <img src="/icon.svg" alt="" width="48" height="48" />
      <h1>Holdfast</h1>
      {shutOut.value === null ? (
        <p>Loading…</p>
      ) : (
        <>
          <p role="alert">{shutOut.value}</p>
          <Command line="holdfast ui" />
        </>
      )}
    </main>
  );
}

function App(): JSX.Element {
  return me.value === null || shutOut.value !== null ? <Door /> : <Frame />;
}

const place = document.getElementById("page");
if (place) render(<App />, place);
await logIn();
if (me.value !== null) void followChanges();
