import { checkOption } from "../model/options.ts";
import { type Block, draftMessage, type JsonObject, type MessageRole } from "../model/session/index.ts";
import { isoTime } from "../model/time.ts";

/** A message as people write it: text is enough; id and time are given where they are missing. */
export interface MessageInput {
  readonly id?: string;
  readonly role: MessageRole;
  readonly createdAt?: string;
  readonly text?: string;
  readonly blocks?: readonly Block[];
  readonly meta?: JsonObject;
}

/** The event that appends it, valid and frozen. */
export function readMessage(
  input: MessageInput,
  now: number,
  newId: () => string,
): ReturnType<typeof draftMessage> {
  checkOption("a message", input, "object");
  const { id, createdAt, text, blocks } = input;
  // Nothing to add, and nothing that only a spread would make plain: the copy that is made of it anyway is enough.
  const isWhole = text === undefined && typeof id === "string" && typeof createdAt === "string";
  if (isWhole && blocks && Object.getPrototypeOf(input) === Object.prototype) return draftMessage(input);
  return draftMessage(completed(input, now, newId));
}

/** In the order in which a message is read in one walk. Whatever else there is comes last, and is refused. */
function completed(input: MessageInput, now: number, newId: () => string): object {
  const { id, role, createdAt, text, blocks = [], meta, ...others } = input;
  return {
    id: id ?? newId(),
    role,
    createdAt: createdAt ?? isoTime(now),
    // What is no list is left for the schema to refuse.
    blocks: text === undefined || !Array.isArray(blocks) ? blocks : [{ kind: "text", text }, ...blocks],
    ...(meta !== undefined && { meta }),
    ...others,
  };
}
