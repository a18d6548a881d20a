/** `trust`: a person allows the project's configuration file on this machine (`config/trust.ts`). */

import { dirname, relative } from "node:path";
import * as z from "zod";
import { coveredFiles, distrust, trust } from "../config/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { mutation } from "./operation.ts";

const text = z.string();

export const trustOperations = [
  mutation("trust", "Allow the project's configuration file to run on this machine, until it changes", {
    who: "person",
    vouches: ({ remove }) => remove !== true,
    input: z.strictObject({ remove: z.boolean().optional() }),
    result: z.strictObject({
      file: text,
      trusted: z.boolean(),
      /** The files that were read for it: the configuration and the modules that it imports by path. */
      files: z.array(text),
    }),
    async run({ place }, { remove = false }) {
      const { configFile: file, home, root } = place;
      if (file === null) {
        throw new HoldfastError("INPUT_INVALID", `${root}: no configuration file`, {
          hint: "Create holdfast.config.ts, .mjs, .js or .json there: docs/reference/configuration.md",
        });
      }
      (remove ? distrust : trust)({ file, home });
      const files = coveredFiles(file).map((each) => relative(dirname(file), each));
      return { file, trusted: !remove, files };
    },
  }),
];
