/** The command palette: every page, session and goal by a few letters, and the command that does the same. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "./api.ts";
import { Dialog } from "./parts.tsx";
import { go, link } from "./router.ts";
import { shellWord } from "./text.ts";

interface Entry {
  readonly label: string;
  readonly line: string;
  readonly run: () => void;
}

const PAGES: readonly (readonly [
  label: string,
  page: string,
  line: string,
  query?: Record<string, string>,
])[] = [
  ["Inbox", "inbox", "holdfast inbox"],
  ["Sessions", "sessions", "holdfast session list"],
  ["Sessions that crashed", "sessions", "holdfast session list --status crashed", { status: "crashed" }],
  ["Sessions that run", "sessions", "holdfast session list --status running", { status: "running" }],
  ["Ledger", "ledger", "holdfast ledger"],
  ["Calls in doubt", "ledger", "holdfast ledger --status unknown", { status: "unknown" }],
  ["Goals", "goals", "holdfast goal list"],
  ["Briefing of the next agent", "goals", "holdfast brief", { tab: "briefing" }],
  ["Fleet and health", "fleet", "holdfast fleet"],
];

export function Palette({ onClose, more }: { onClose: () => void; more: readonly Entry[] }): JSX.Element {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [found, setFound] = useState<readonly Entry[]>([]);
  useEffect(() => {
    const words = typed.trim();
    let isOver = false;
    const timer = setTimeout(async () => {
      const [sessions, goals] = await Promise.all([
        ask("session list", { text: words || undefined, limit: 6 }).catch(() => null),
        ask("goal list").catch(() => null),
      ]);
      if (isOver) return;
      const isLike = (text: string): boolean => text.toLowerCase().includes(words.toLowerCase());
      setFound([
        ...(sessions?.sessions ?? []).map(({ session, title }) => ({
          label: `Session ${title ?? session}`,
          line: `holdfast session show ${shellWord(session)}`,
          run: () => go(link("session", session)),
        })),
        ...(goals?.goals ?? [])
          .filter(({ goal, title }) => isLike(`${goal} ${title ?? ""}`))
          .map(({ goal, title }) => ({
            label: `Goal ${title ?? goal}`,
            line: `holdfast goal show ${shellWord(goal)}`,
            run: () => go(link("goals", goal)),
          })),
        ...(words === ""
          ? []
          : [
              {
                label: `Find “${words}” in the ledger`,
                line: `holdfast ledger ${shellWord(words)}`,
                run: () => go(link("ledger", null, { text: words })),
              },
            ]),
      ]);
    }, 120);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [typed]);
  const pages = PAGES.map(([label, page, line, query]) => ({
    label,
    line,
    run: () => go(link(page, null, query)),
  }));
  const fits = ({ label, line }: Entry): boolean =>
    `${label} ${line}`.toLowerCase().includes(typed.trim().toLowerCase());
  const entries = [...[...pages, ...more].filter(fits), ...found];
  const current = Math.min(at, entries.length - 1);
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(entries.length - 1, current + step)));
    }
    if (event.key === "Enter" && entries[current]) {
      event.preventDefault();
      onClose();
      entries[current].run();
    }
  };
  return (
    <Dialog title="Go to" onClose={onClose} wide>
      <input
        class="big"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette"
        aria-activedescendant={current >= 0 ? `entry-${current}` : undefined}
        aria-label="Go to"
        placeholder="a page, a session, a goal, a key"
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={press}
        autofocus
      />
      <div id="palette" role="listbox" aria-label="Found" class="palette">
        {entries.map((entry, index) => (
          <div
            key={`${entry.label} ${entry.line}`}
            id={`entry-${index}`}
            role="option"
            aria-selected={index === current}
            onClick={() => {
              onClose();
              entry.run();
            }}
          >
            <span>{entry.label}</span>
            <code>{entry.line}</code>
          </div>
        ))}
      </div>
    </Dialog>
  );
}
