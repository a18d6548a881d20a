export { type CopyOptions, type CopyReport, copyStore, stayHere } from "./copy.ts";
