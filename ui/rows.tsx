/**
 * A list whose rows have one height. Only the rows in view are in the document, so a list of 100,000 scrolls
 * like one of 10. The stylesheet sets the height, by the width of the screen: `--row`.
 */

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows above and below the view, for the moment in which the browser scrolls before the page is told. */
const MARGIN = 12;
/** The window moves by so many rows at once: a small step of the wheel draws nothing. */
const STEP = 8;

interface Props<Item> {
  readonly items: readonly Item[];
  readonly keyOf: (item: Item) => string | number;
  readonly draw: (item: Item, index: number) => ComponentChildren;
  readonly label: string;
  readonly class: string;
  readonly rowClass: (item: Item, index: number) => string;
  /** The row that the keys are at: it is scrolled into view when it changes. */
  readonly at?: number;
}

interface View {
  readonly from: number;
  readonly count: number;
  readonly height: number;
}

export function Rows<Item>(props: Props<Item>): JSX.Element {
  const { items, keyOf, draw, label, rowClass, at = -1 } = props;
  const list = useRef<HTMLUListElement>(null);
  const [view, setView] = useState<View>({ from: 0, count: 4 * STEP, height: 36 });
  const top = useRef<string | number | null>(null);

  const look = (): void => {
    const { current } = list;
    const scroller = current?.closest("main");
    if (!current || !scroller) return;
    const height = Number.parseFloat(getComputedStyle(current).getPropertyValue("--row"));
    const above = scroller.getBoundingClientRect().top - current.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(above / height));
    top.current = above > 0 && items[first] !== undefined ? keyOf(items[first]) : null;
    const from = Math.max(0, Math.floor((first - MARGIN) / STEP) * STEP);
    const count = Math.ceil(scroller.clientHeight / height) + 2 * MARGIN + STEP;
    setView((before) =>
      before.from === from && before.count === count && before.height === height
        ? before
        : { from, count, height },
    );
  };
  const latest = useRef(look);
  latest.current = look;

  useLayoutEffect(() => {
    const scroller = list.current?.closest("main");
    if (!scroller) return undefined;
    const renew = (): void => latest.current();
    const observer = new ResizeObserver(renew);
    observer.observe(scroller);
    if (list.current) observer.observe(list.current);
    scroller.addEventListener("scroll", renew, { passive: true });
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", renew);
    };
  }, []);

  // Rows that come or go above the view must not move the one that a person reads.
  const first = useRef<readonly Item[]>(items);
  useLayoutEffect(() => {
    const { current: key } = top;
    const before = first.current;
    first.current = items;
    if (before !== items && key !== null) {
      const was = before.findIndex((item) => keyOf(item) === key);
      const is = items.findIndex((item) => keyOf(item) === key);
      if (was >= 0 && is >= 0 && was !== is)
        list.current?.closest("main")?.scrollBy(0, (is - was) * view.height);
    }
  }, [items]);

  useLayoutEffect(() => {
    const scroller = list.current?.closest("main");
    if (at < 0 || !list.current || !scroller) return;
    const frame = scroller.getBoundingClientRect();
    const row = list.current.getBoundingClientRect().top + at * view.height;
    if (row < frame.top + view.height) scroller.scrollBy(0, row - frame.top - view.height);
    else if (row + 2 * view.height > frame.bottom) scroller.scrollBy(0, row + 2 * view.height - frame.bottom);
  }, [at]);

  const { from, count, height } = view;
  const shown = items.slice(from, from + count);
  return (
    <ul
      ref={list}
      class={`windowed ${props.class}`}
      aria-label={label}
      style={{ height: `${items.length * height + 2}px`, paddingTop: `${from * height}px` }}
    >
      {shown.map((item, index) => (
        <li
          key={keyOf(item)}
          class={rowClass(item, from + index)}
          aria-setsize={items.length}
          aria-posinset={from + index + 1}
        >
          {draw(item, from + index)}
        </li>
      ))}
    </ul>
  );
}
