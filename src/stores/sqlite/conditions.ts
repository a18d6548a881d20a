import type { Value } from "./driver.ts";

/** Conditions of a query and their values, side by side. */
export class Conditions {
  readonly #parts: string[] = [];
  readonly values: Value[] = [];

  add(sql: string, ...values: Value[]): void {
    this.#parts.push(sql);
    this.values.push(...values);
  }

  get sql(): string {
    return this.#parts.join(" AND ");
  }
}
