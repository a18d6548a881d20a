/** All operations by name. A surface finds a row, calls `perform` with the input, and shows the result. */

import type * as z from "zod";
import { backupOperations } from "./backup-operations.ts";
import { callOperations } from "./call-operations.ts";
import { goalImportOperations } from "./goal-import.ts";
import { goalOperations } from "./goal-operations.ts";
import { goalPastOperations } from "./goal-past.ts";
import { handoffOperations } from "./handoff-operations.ts";
import { historyOperations } from "./history-operations.ts";
import { inboxOperations } from "./inbox-operations.ts";
import { movingOperations } from "./moving-operations.ts";
import { newProjectOperations } from "./new-project.ts";
import { noteOperations } from "./note-operations.ts";
import type { Operation } from "./operation.ts";
import { planningOperations } from "./planning-operations.ts";
import { sessionOperations } from "./session-operations.ts";
import { initOperations, schemaOperations } from "./setup-operations.ts";
import { signingOperations } from "./signing-operations.ts";
import { storeOperations, superviseOperations } from "./store-operations.ts";
import { taskOperations } from "./task-operations.ts";
import { tenantOperations } from "./tenant-operations.ts";
import { trustOperations } from "./trust-operations.ts";
import { verifyOperations } from "./verify-operations.ts";

const ROWS = [
  ...storeOperations,
  ...initOperations,
  ...goalOperations,
  ...goalImportOperations,
  ...goalPastOperations,
  ...planningOperations,
  ...handoffOperations,
  ...taskOperations,
  ...noteOperations,
  ...sessionOperations,
  ...historyOperations,
  ...callOperations,
  ...inboxOperations,
  ...movingOperations,
  ...backupOperations,
  ...superviseOperations,
  ...tenantOperations,
  ...schemaOperations,
  ...newProjectOperations,
  ...trustOperations,
  ...signingOperations,
  ...verifyOperations,
];

type Row = (typeof ROWS)[number];
export type OperationName = Row["name"];

export type ResultOf<Name extends OperationName> = z.output<Extract<Row, { readonly name: Name }>["result"]>;

export const OPERATIONS: ReadonlyMap<string, Operation> = new Map(
  ROWS.map((each) => [each.name, each as Operation]),
);
