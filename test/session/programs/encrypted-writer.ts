/** Creates sessions in an encrypted store, one after another, and erases every third, until it is killed. */

import { aesGcm, open } from "../../../src/index.ts";

const [store = "", ring = "", key = ""] = process.argv.slice(2);
const holdfast = await open(store, { encryption: aesGcm({ keys: { a: key }, ring }) });

for (let n = 1; n < 10_000; n++) {
  const session = await holdfast.session(`s${n}`, { title: `title ${n}` });
  await session.append({ role: "user", text: `message ${n}` });
  process.stdout.write(`written ${n}\n`);
  await session.close();
  if (n % 3 !== 0) continue;
  process.stdout.write(`erasing ${n}\n`);
  await holdfast.sessions.erase(`s${n}`);
  process.stdout.write(`erased ${n}\n`);
}
