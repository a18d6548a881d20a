/** Parses strace's output into disk operations, in order. */

import { dirname } from "node:path";

export type DiskStep =
  | { readonly act: "create"; readonly path: string; readonly folder: boolean }
  | { readonly act: "write"; readonly path: string; readonly offset: number; readonly data: Buffer }
  | { readonly act: "truncate"; readonly path: string; readonly size: number }
  | { readonly act: "sync" | "failed sync"; readonly path: string }
  | { readonly act: "unlink"; readonly path: string }
  | { readonly act: "rename"; readonly path: string; readonly to: string }
  /** An acknowledgement to the writer. */
  | { readonly act: "told"; readonly text: string };

export const TRACED = "openat,mkdir,pwrite64,write,ftruncate,fsync,fdatasync,unlink,rmdir,rename";

const LINE = /^(\w+)\((.*)\)\s+= (-?\d+)/;

/** The operations below `root`. The writer reports its acknowledgements through the file `acks`. */
export function readTrace(trace: string, root: string, acks: string): DiskStep[] {
  const steps: DiskStep[] = [];
  const known = new Set<string>();
  for (const line of trace.split("\n")) {
    const [, call, args = "", result] = LINE.exec(line) ?? [];
    const isSync = call === "fsync" || call === "fdatasync";
    const hasFailed = Number(result) < 0;
    if (!call || (hasFailed && !isSync)) continue;
    const read = readCall(call, args, acks);
    const step = hasFailed && read?.act === "sync" ? { ...read, act: "failed sync" as const } : read;
    if (!step || ("path" in step && !step.path.startsWith(root))) continue;
    // O_CREAT creates a missing file only, and truncates an existing one only with O_TRUNC.
    if (step.act === "create" && known.has(step.path)) {
      if (args.includes("O_TRUNC")) steps.push({ act: "truncate", path: step.path, size: 0 });
      continue;
    }
    if (step.act === "create") known.add(step.path);
    if (step.act === "unlink" || step.act === "rename") known.delete(step.path);
    if (step.act === "rename") known.add(step.to);
    steps.push(step);
  }
  return steps;
}

function readCall(call: string, args: string, acks: string): DiskStep | null {
  const strings = [...args.matchAll(/"((?:\\x[0-9a-f]{2})*)"/g)].map((match) => bytesOf(match[1] ?? ""));
  const file = bytesOf(/^\d+<((?:\\x[0-9a-f]{2})*)>/.exec(args)?.[1] ?? "").toString();
  const numbers = args
    .slice(args.lastIndexOf('"') + 1)
    .split(", ")
    .map(Number);
  const path = strings[0]?.toString() ?? "";
  switch (call) {
    case "mkdir":
      return { act: "create", path, folder: true };
    case "openat":
      return args.includes("O_CREAT") && path !== acks ? { act: "create", path, folder: false } : null;
    case "write":
      return file === acks ? { act: "told", text: path } : null;
    case "pwrite64":
      return { act: "write", path: file, offset: numbers.at(-1) ?? 0, data: strings[0] ?? Buffer.alloc(0) };
    case "ftruncate":
      return { act: "truncate", path: file, size: Number(args.slice(args.lastIndexOf(" ") + 1)) };
    case "fsync":
    case "fdatasync":
      return { act: "sync", path: file };
    case "unlink":
    case "rmdir":
      return { act: "unlink", path };
    case "rename":
      return { act: "rename", path, to: strings[1]?.toString() ?? "" };
    default:
      throw new Error(`the power cut does not know what ${call} does to a disk`);
  }
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text.replaceAll("\\x", ""), "hex");
}

export function parentOf(path: string): string {
  return dirname(path);
}
