import { freezeJson } from "../model/json.ts";
import type { Message } from "../model/session/index.ts";

/** A transcript as it is handed out: frozen, and a copy. Whoever pushed to the fold's own list would see said what nobody has stored. */
export class ShownMessages {
  private of: readonly Message[] = [];
  private messages: readonly Message[] = [];

  /** Made anew when there is more; what was read from the store is not frozen by itself. */
  show(current: readonly Message[]): readonly Message[] {
    const known = this.of === current ? this.messages.length : 0;
    if (this.of === current && known === current.length) return this.messages;
    for (let index = known; index < current.length; index++) freezeJson(current[index]);
    this.of = current;
    this.messages = Object.freeze([...current]);
    return this.messages;
  }
}
