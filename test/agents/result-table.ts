/** The results of a run: one row per scenario, one column per agent, and the reasons of what was skipped. */
export class ResultTable {
  private readonly cells = new Map<string, string>();
  private readonly reasons: string[] = [];
  private readonly titles: readonly string[];
  private readonly agents: readonly string[];
  hasFailed = false;

  constructor(titles: readonly string[], agents: readonly string[]) {
    this.titles = titles;
    this.agents = agents;
  }

  add(title: string, agent: string, isOk: boolean, seconds: number): void {
    this.cells.set(`${title} ${agent}`, isOk ? `ok ${seconds.toFixed(0)} s` : "FAILED");
    this.hasFailed ||= !isOk;
  }

  skip(title: string, agent: string, why: string): void {
    if (!this.reasons.includes(why)) this.reasons.push(why);
    this.cells.set(`${title} ${agent}`, `skipped (${this.reasons.indexOf(why) + 1})`);
  }

  text(): string {
    const rows = this.titles.map((title) => [
      title.replace(/:.*/s, ""),
      ...this.agents.map((agent) => this.cells.get(`${title} ${agent}`) ?? "not run"),
    ]);
    const all = [["", ...this.agents], ...rows];
    const widths = [0, ...this.agents.map((_, index) => index + 1)].map((column) =>
      Math.max(...all.map((row) => row[column]?.length ?? 0)),
    );
    const lines = all.map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    );
    return ["", ...lines, ...this.reasons.map((why, index) => `(${index + 1}) ${why}`)].join("\n");
  }
}
