/** Streams: events, typed facets for lists, cursors, and the seal of a store that moved. */

export { countFittingRows, decodeCursor, MOVED_PAGE_BYTES, pageOf } from "./cursor.ts";
export {
  applyEvent,
  checkedDraft,
  type Draft,
  type DraftOf,
  type Event,
  type EventSchema,
  type EventSpec,
  event,
  type FacetChange,
  type FoldKind,
  makeEvent,
  type Place,
  type StreamKind,
  writeEvents,
} from "./event.ts";
export { expiryOf, type Item, type StreamFacets } from "./facets.ts";
export { type DataOf, lazySchema } from "./lazy-schema.ts";
export { finishCopyHint, sealedStore, shellWord } from "./sealed-store.ts";
