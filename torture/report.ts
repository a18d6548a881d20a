/** The result of a run of the torture, as tables for the terminal and for docs/why/torture.md. */

import { FAMILIES, type Family, type Job, type Outcome } from "./families.ts";
import type { PowerCutResult } from "./power-cut/power-cut.ts";

export interface Ran {
  readonly job: Job;
  readonly outcome: Outcome;
}

export interface PlantRow {
  readonly name: string;
  readonly under: string;
  readonly found: boolean;
  readonly by: string;
}

export interface Totals {
  readonly cases: number;
  readonly kills: number;
  readonly ioFaults: number;
  /** Faults that did not fire. They prove nothing and are not counted. */
  readonly missed: number;
  readonly violations: number;
}

export class Report {
  readonly plants: PlantRow[] = [];
  readonly powerCuts: (PowerCutResult & { readonly fault: string })[] = [];
  private readonly ran: Ran[] = [];

  add(ran: Ran): void {
    this.ran.push(ran);
  }

  totals(): Totals {
    const fired = this.ran.filter(({ outcome }) => outcome.fired);
    const broken = this.powerCuts.reduce((sum, { violations }) => sum + violations.length, 0);
    return {
      cases: fired.length,
      kills: fired.reduce((sum, { job }) => sum + job.kills, 0),
      ioFaults: fired.reduce((sum, { job }) => sum + job.ioFaults, 0),
      missed: this.ran.length - fired.length,
      violations: fired.reduce((sum, { outcome }) => sum + outcome.violations.length, broken),
    };
  }

  /** One line per broken invariant, with everything needed to reproduce it. */
  complaints(): string[] {
    const cases = this.ran.flatMap(({ job, outcome }) => {
      return outcome.violations.map(({ invariant, what }) => {
        return `${invariant}  ${FAMILIES[job.family]} · ${job.scenario} · ${job.fault}: ${what}`;
      });
    });
    const cuts = this.powerCuts.flatMap(({ violations }) =>
      violations.map(({ what }) => `I2  power cut: ${what}`),
    );
    const plants = this.plants.filter((plant) => !plant.found);
    return [...cases, ...cuts, ...plants.map(({ name, by }) => `planted bug not found: ${name} (${by})`)];
  }

  isGood(): boolean {
    return this.complaints().length === 0;
  }

  /** Scenario × fault: how many cases. */
  markdown(): string {
    const families = (Object.keys(FAMILIES) as Family[]).filter((family) => {
      return this.ran.some(({ job }) => job.family === family);
    });
    const scenarios = [...new Set(this.ran.map(({ job }) => job.scenario))];
    const rows = scenarios.map((name) => {
      const mine = this.ran.filter(({ job, outcome }) => job.scenario === name && outcome.fired);
      const counts = families.map((family) => mine.filter(({ job }) => job.family === family).length || "");
      const violations = mine.reduce((sum, { outcome }) => sum + outcome.violations.length, 0);
      return [name, ...counts, violations];
    });
    const all = families.map((family) => {
      return this.ran.filter(({ job, outcome }) => job.family === family && outcome.fired).length;
    });
    const { violations } = this.totals();
    const header = ["scenario", ...families.map((family) => FAMILIES[family]), "violations"];
    return [
      table(header, [...rows, ["**all**", ...all, violations]]),
      ...this.powerCutTable(),
      ...this.plantTable(),
    ].join("\n\n");
  }

  private powerCutTable(): string[] {
    if (this.powerCuts.length === 0) return [];
    const rows = this.powerCuts.map(({ fault, points, images, promises, violations }) => {
      return [fault, points, images, promises, violations.length];
    });
    const header = ["fault before the power cut", "cut at", "images opened", "promises at the end"];
    return [table([...header, "lost or changed"], rows)];
  }

  private plantTable(): string[] {
    if (this.plants.length === 0) return [];
    const rows = this.plants.map(({ name, under, found, by }) => [name, under, found ? by : "**not found**"]);
    return [table(["planted bug", "shown under", "found by"], rows)];
  }
}

type Cell = string | number;

function table(header: readonly Cell[], rows: readonly (readonly Cell[])[]): string {
  const line = (cells: readonly Cell[]): string => `| ${cells.join(" | ")} |`;
  const rule = header.map((_, index) => (index === 0 ? "---" : "--:"));
  return [line(header), line(rule), ...rows.map(line)].join("\n");
}

export function summary({ cases, kills, ioFaults, missed, violations }: Totals, images: number): string {
  const faults = `${cases} cases · ${kills} kills · ${ioFaults} I/O faults · ${images} power-cut images`;
  return `${faults} · ${missed} faults that did not fire (not counted) · ${violations} violations`;
}
