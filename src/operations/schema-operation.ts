/** `schema new`: a project's own pair of schemas, a typed manager for each, and a place for the next migration. */

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import * as z from "zod";
import { HoldfastError } from "../model/errors.ts";
import { definedFields, operation } from "./operation.ts";

const text = z.string();
const TYPES = ["string", "integer", "number", "boolean", "string[]"] as const;
const fields = z.record(text, z.union([z.enum(TYPES), z.strictObject({ enum: z.tuple([text], text) })]));

export const schemaOperation = [
  operation({
    name: "schema new",
    about: "Write a project's own state and board: schemas, typed managers, migrations",
    who: "both",
    writes: true,
    input: z.strictObject({
      name: text,
      folder: text.optional(),
      state: fields.optional(),
      build: fields.optional(),
      review: fields.optional(),
    }),
    result: z.strictObject({ name: text, folder: text, files: z.array(text) }),
    async run(_context, { folder = ".", ...template }) {
      // Loaded here: no other operation needs what reads and checks those files.
      const { generateState } = await import("../projections/index.ts");
      const files = Object.entries(generateState(definedFields(template)));
      const target = resolve(folder);
      const there = files.map(([path]) => path).filter((path) => existsSync(join(target, path)));
      if (there.length > 0) {
        throw new HoldfastError("STREAM_EXISTS", `${there.join(", ")} is there already`, {
          hint: "Nothing was written. What was generated is yours: change it there, or choose another name.",
          data: { files: there },
        });
      }
      for (const [path, content] of files) {
        mkdirSync(dirname(join(target, path)), { recursive: true });
        writeFileSync(join(target, path), content, { flag: "wx" });
      }
      return { name: template.name, folder: target, files: files.map(([path]) => path) };
    },
  }),
];
