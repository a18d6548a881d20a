export { exportTo } from "./export.ts";
export { importFrom } from "./import.ts";
export type { ExportReport, PortableReport } from "./lines.ts";
