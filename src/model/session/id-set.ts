/** As JSON: the ids with spaces between them, or a list where one has a space in it, or is empty. */
export type EncodedIds = string | readonly string[];

/**
 * Every id there ever was, of which whoever only looks asks for none. So those from a snapshot are taken apart, and those
 * that were added since are put among them, when somebody does. Most ids come in order, as those that we make do: one that is
 * greater than all is not there, and to see that takes no search.
 */
export class IdSet {
  private ids = new Set<string>();
  private early: EncodedIds;
  private recent: string[] = [];
  /** Undefined while those from a snapshot are not taken apart. */
  private greatest: string | undefined;

  constructor(early: EncodedIds = "") {
    this.early = early;
    if (early.length === 0) this.greatest = "";
  }

  add(id: string): void {
    this.recent.push(id);
    if (this.greatest !== undefined && id > this.greatest) this.greatest = id;
  }

  has(id: string): boolean {
    if (this.greatest !== undefined && id > this.greatest) return false;
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
    let greatest = "";
    for (const id of this.ids) if (id > greatest) greatest = id;
    this.greatest = greatest;
    return this.ids;
  }
}
