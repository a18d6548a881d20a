import { agent } from "./agent.mjs";

const [address, world, mustDie] = process.argv.slice(2);
// Without a top-level await, which CommonJS does not have.
void agent({ address, world, mustDie: mustDie === "die" }).then((said) => {
  console.log(said);
  process.exit(0);
});
