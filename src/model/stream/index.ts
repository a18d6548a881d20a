/** Streams: events, typed facets for lists, cursors, and the seal of a store that moved. */

export { countFittingRows, decodeCursor, MOVED_PAGE_BYTES, pageOf } from "./cursor.ts";
export {
  applyEvent,
  checkedDraft,
  type DataOf,
  type Draft,
  type DraftOf,
  type Event,
  type EventSchema,
  type EventSpec,
  event,
  expiryOf,
  type FacetChange,
  type FoldKind,
  type Item,
  lazySchema,
  makeEvent,
  type Place,
  type StreamFacets,
  type StreamKind,
  writeEvents,
} from "./event.ts";
export { finishCopyHint, sealedStore, shellWord } from "./sealed-store.ts";
