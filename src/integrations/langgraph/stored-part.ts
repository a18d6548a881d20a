import type { Json } from "../../model/json.ts";

/** `j`: exact JSON, `l` if LangChain has to load it. Otherwise what a `serde` wrote: its type, and text or base64. */
export type Part =
  | { readonly j: Json; readonly l?: 1 }
  | { readonly t: string; readonly u: string }
  | { readonly t: string; readonly b: string };
