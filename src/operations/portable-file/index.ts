export { exportTo } from "./export.ts";
export { importFrom } from "./import.ts";
export type { PortableReport } from "./lines.ts";
