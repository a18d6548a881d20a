export { type CopyOptions, type CopyReport, copyStore, openTarget, stayHere } from "./copy.ts";
