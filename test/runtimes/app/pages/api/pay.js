import { agent } from "../../agent.mjs";

export default async function handler({ query }, response) {
  const { address, world, mustDie } = query;
  response.status(200).send(await agent({ address, world, mustDie: mustDie === "die" }));
}
