/** Streams: events, typed facets for lists, cursors, and the seal of a store that moved. */

export { countFittingRows, decodeCursor, MOVED_PAGE_BYTES, pageOf } from "./cursor.ts";
export type {
  DataOf,
  Draft,
  DraftOf,
  Event,
  EventSchema,
  EventSpec,
  FacetChange,
  FoldKind,
  Item,
  Place,
  StreamFacets,
  StreamKind,
} from "./event.ts";
export { applyEvent, checkedDraft, event, expiryOf, lazySchema, makeEvent, writeEvents } from "./event.ts";
export { finishMoveHint, finishUndoHint, rewoundStore, sealedStore } from "./sealed-store.ts";
