/** Operations on the tenants of a Postgres store. */

import * as z from "zod";
import { HoldfastError } from "../model/errors.ts";
import { checkId } from "../model/names.ts";
import { mutation } from "./operation.ts";

const text = z.string();

export const tenantOperations = [
  mutation("postgres rls", "Let a database role see one namespace and no other, by row-level security", {
    who: "person",
    vouches: ({ dryRun }) => dryRun !== true,
    input: z.strictObject({ role: text, namespace: text, dryRun: z.boolean().optional() }),
    result: z.strictObject({
      role: text,
      namespace: text,
      applied: z.boolean(),
      sql: z.array(text),
      /** Roles that had rights on the tables and see no rows any more. */
      others: z.array(text),
    }),
    async run(context, { role, namespace, dryRun = false }) {
      checkId(namespace, "namespace");
      const { store } = (await context.holdfast({ orSchema: true })).journal;
      if (!store.grantTenant) {
        throw new HoldfastError("INPUT_INVALID", `postgres rls: ${store.address} is not a Postgres store`, {
          hint: "Pass its address, with a user who owns the tables: --store postgres://owner@host/database",
        });
      }
      const rights = await store.grantTenant({ role, namespace }, { dryRun });
      return { role, namespace, applied: !dryRun, sql: [...rights.sql], others: [...rights.others] };
    },
  }),
];
