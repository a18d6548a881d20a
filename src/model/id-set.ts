/** As JSON: the ids with spaces between them, or a list where one has a space in it, or is empty. */
export type EncodedIds = string | readonly string[];

/**
 * Every id there ever was, of which whoever only looks asks for none. So those from a snapshot are taken apart, and those
 * that were added since are put among them, when somebody does.
 */
export class IdSet {
  private ids = new Set<string>();
  private early: EncodedIds;
  private recent: string[] = [];

  constructor(early: EncodedIds = "") {
    this.early = early;
  }

  add(id: string): void {
    this.recent.push(id);
  }

  has(id: string): boolean {
    return this.known().has(id) || (this.early.length > 0 && this.all().has(id));
  }

  encode(): EncodedIds {
    const list = [...this.all()];
    return list.some((id) => id === "" || id.includes(" ")) ? list : list.join(" ");
  }

  /** Without those from a snapshot that were not taken apart yet. */
  private known(): Set<string> {
    if (this.recent.length > 0) {
      for (const id of this.recent) this.ids.add(id);
      this.recent = [];
    }
    return this.ids;
  }

  /** In the order in which they came. */
  private all(): Set<string> {
    const { early } = this;
    const known = this.known();
    if (early.length === 0) return known;
    this.early = "";
    this.ids = new Set(typeof early === "string" ? early.split(" ") : early);
    for (const id of known) this.ids.add(id);
    return this.ids;
  }
}
