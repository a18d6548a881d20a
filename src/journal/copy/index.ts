export { abandonMove, type CopyOptions, type CopyReport, copyStore, openTarget } from "./copy.ts";
