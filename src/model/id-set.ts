/** As JSON: the ids with spaces between them, or a list where one has a space in it, or is empty. */
export type EncodedIds = string | readonly string[];

/**
 * Every id there ever was, of which whoever only looks asks for none: those from a snapshot are taken apart when somebody
 * does. Until then, adding one does not look whether it is there.
 */
export class IdSet {
  private ids = new Set<string>();
  private early: EncodedIds;

  constructor(early: EncodedIds = "") {
    this.early = early;
  }

  add(id: string): void {
    this.ids.add(id);
  }

  has(id: string): boolean {
    return this.ids.has(id) || this.all().has(id);
  }

  encode(): EncodedIds {
    const list = [...this.all()];
    return list.some((id) => id === "" || id.includes(" ")) ? list : list.join(" ");
  }

  /** In the order in which they came. */
  private all(): Set<string> {
    const { early, ids } = this;
    if (early.length === 0) return ids;
    this.early = "";
    this.ids = new Set(typeof early === "string" ? early.split(" ") : early);
    for (const id of ids) this.ids.add(id);
    return this.ids;
  }
}
