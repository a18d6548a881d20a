import type { Value } from "./database.ts";

/** Conditions of a query and their values, side by side. A `?` in a condition is its next value. */
export class Conditions {
  readonly #parts: string[] = [];
  readonly values: Value[] = [];

  add(sql: string, ...values: Value[]): void {
    const given = values.values();
    this.#parts.push(sql.replaceAll("?", () => this.value(given.next().value as Value)));
  }

  /** A value outside a condition, as it stands in SQL. */
  value(value: Value): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  get sql(): string {
    return this.#parts.join(" AND ");
  }
}
