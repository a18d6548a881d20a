/**
 * `new`: a project to start from. The files of each kind lie in the package: in `templates/`, those of the
 * chat in `examples/chat/`. Nothing is written if one of them is in the way.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { HoldfastError } from "../model/errors.ts";
import { mutation } from "./operation.ts";

const text = z.string();

interface Template {
  /** Folders of the package whose files are copied. */
  readonly from: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
  /** Packages beside holdfast, by name and version. */
  readonly packages: Readonly<Record<string, string>>;
  readonly next: readonly string[];
}

const TEMPLATES: Readonly<Record<"chat" | "worker" | "coding", Template>> = {
  chat: {
    from: ["examples/chat", "templates/chat"],
    scripts: { start: "tsx server.ts" },
    packages: { ai: "^6.0.0", zod: "^4.0.0", rolldown: "1.0.0-rc.17", tsx: "^4.0.0" },
    next: [
      "npm install",
      "npm start",
      "kill the server in the middle of an answer, start it again, reload the page",
    ],
  },
  worker: {
    from: ["templates/worker"],
    scripts: { start: "node agent.mjs", test: "node --test" },
    packages: { zod: "^4.0.0" },
    next: ["npm install", "npm start", "npm test, which kills it everywhere"],
  },
  coding: {
    from: ["templates/coding"],
    scripts: {},
    packages: {},
    next: ["npm install", "npx holdfast init", 'npx holdfast goal new <name> "<what you want>"'],
  },
};

export const newProjectOperations = [
  mutation("new", "Write a project to start from: a chat, a worker, or long work with coding agents", {
    input: z.strictObject({ kind: z.enum(["chat", "worker", "coding"]), folder: text.optional() }),
    result: z.strictObject({ kind: text, folder: text, files: z.array(text), next: z.array(text) }),
    async run({ cwd }, { kind, folder = kind }) {
      const { from, scripts, packages, next } = TEMPLATES[kind];
      const home = packageFolder();
      const { version } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as { version: string };
      const target = resolve(cwd, folder);
      const name = basename(target)
        .toLowerCase()
        .replace(/[^a-z0-9._-]+/g, "-");
      const manifest = {
        name,
        private: true,
        type: "module",
        scripts,
        dependencies: { holdfast: `^${version}`, ...packages },
      };
      const files = new Map([["package.json", `${JSON.stringify(manifest, null, 2)}\n`]]);
      files.set(".gitignore", "node_modules\n.holdfast/\n*.db*\ncharges.log\n");
      for (const source of from.map((each) => join(home, each)))
        for (const file of readdirSync(source)) files.set(file, readFileSync(join(source, file), "utf8"));
      const inTheWay = [...files.keys()].filter((file) => existsSync(join(target, file)));
      if (inTheWay.length > 0) {
        throw new HoldfastError("STREAM_EXISTS", `${folder}: ${inTheWay.join(", ")} exists already`, {
          hint: `Nothing was written. Name another folder: holdfast new ${kind} <folder>`,
          data: { files: inTheWay },
        });
      }
      mkdirSync(target, { recursive: true });
      for (const [file, content] of files) writeFileSync(join(target, file), content);
      return { kind, folder: target, files: [...files.keys()].sort(), next: [`cd ${folder}`, ...next] };
    },
  }),
];

/** The root of this package, from its sources or its bundle. */
function packageFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "templates", "worker", "agent.mjs"))) {
    if (folder === dirname(folder)) {
      throw new HoldfastError("STORE_NOT_FOUND", "the templates of the package are missing", {
        hint: "Install the package again.",
      });
    }
    folder = dirname(folder);
  }
  return folder;
}
