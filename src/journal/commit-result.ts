import { HoldfastError } from "../model/errors.ts";
import { leaseLost } from "./leases.ts";
import type { CommitOutcome } from "./log.ts";

/** What was decided, once it is durable. Every other outcome means that nothing was written, and is thrown. */
export function commitResult<Result>(outcome: CommitOutcome<Result>): Result {
  switch (outcome.outcome) {
    case "ok":
      return outcome.result;
    case "fenced":
      throw leaseLost(outcome.lease, outcome.now);
    case "taken":
      throw keyTaken(outcome.key, outcome.by);
    case "missing":
      throw artifactMissing(outcome.artifact);
    default:
      throw new Error(`a commit came to ${JSON.stringify(outcome)}`);
  }
}

export function artifactMissing(artifact: string): HoldfastError {
  return new HoldfastError("ARTIFACT_MISSING", `artifact ${artifact} is not stored`, {
    hint: "Store its bytes first, then refer to it.",
    data: { artifact },
  });
}

function keyTaken(key: string, by: { readonly stream: string; readonly seq: number }): HoldfastError {
  return new HoldfastError("KEY_TAKEN", `key ${key} is held by ${by.stream} at ${by.seq}`, {
    hint: "The same operation was claimed elsewhere: read its outcome there.",
    data: { key, ...by },
  });
}
