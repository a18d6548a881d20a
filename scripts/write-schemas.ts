// Regenerates the published schemas: `npm run schemas`, after a change to a record's table.

import { writeFileSync } from "node:fs";
import { SCHEMAS } from "../src/projections/index.ts";

for (const [name, schema] of Object.entries(SCHEMAS)) {
  writeFileSync(`schemas/${name}`, `${JSON.stringify(schema, null, 2)}\n`);
}
