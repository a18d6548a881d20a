/** The demo's output: one line per event. Colours and pauses only in a terminal, plain text in a pipe. */

import type { Audit, Row } from "./audit.ts";

const WIDEST = 104;
const INDENT = 7;
const READING_MS = 650;

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
const CODES: Readonly<Record<Style, number>> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 };

export class Screen {
  private readonly out: NodeJS.WriteStream;
  private readonly colour: boolean;
  /** The number of the current run, until its first line is printed. */
  private number = "";

  constructor(out: NodeJS.WriteStream) {
    this.out = out;
    this.colour = out.isTTY === true && !process.env["NO_COLOR"];
  }

  opening(kills: number): void {
    this.print("");
    this.print(
      `${this.paint("holdfast", "bold", "cyan")}  ${this.paint(`an agent, killed ${kills} times`, "bold")}`,
    );
    this.print("");
    this.print("  agent  a process of its own, its memory is one SQLite file");
    this.print("  world  payments, mail and pager in another process, which keeps its own log");
    this.print("  task   charge 3 orders, mail 3 receipts, page the desk, write a report");
    this.print("");
  }

  run(number: number): void {
    this.number = String(number);
  }

  /** Prints the words and the calls of the model. */
  step(words: string, calls: string): void {
    this.line("·", `${words}${calls === "" ? "" : ` → ${calls}`}`, "dim");
  }

  killed(when: string): void {
    this.line("✗", `KILLED ${when}`, "red", "bold");
  }

  /** Gives a person time to read an important line. A pipe gets no pauses. */
  async pause(): Promise<void> {
    if (this.out.isTTY) await new Promise((resolve) => setTimeout(resolve, READING_MS));
  }

  recovered(text: string): void {
    this.line("↻", text, "green");
  }

  replayed(text: string): void {
    this.line("↻", text, "green");
  }

  person(text: string): void {
    this.line("?", text, "yellow");
  }

  trouble(text: string): void {
    this.line("!", text, "red");
  }

  result({ rows, world, ledger, doubled, lost }: Audit, ok: boolean): void {
    this.print("");
    this.print(this.paint(`  ${"the world's own log".padEnd(28)}times   the ledger`, "dim"));
    for (const row of rows) this.print(`  ${this.row(row)}`);
    this.print("");
    const verdict = `world ${world} · ledger ${ledger} · doubled ${doubled} · lost ${lost}`;
    this.print(`  ${this.paint(verdict, "bold", ok ? "green" : "red")}`);
  }

  private row({ effect, times, call }: Row): string {
    const what = `${effect.kind.padEnd(8)} ${effect.subject}`.padEnd(28);
    const known = call ? `${call.tool} completed, ${this.evidence(call)}` : "nothing";
    const count = `${times}×`.padEnd(8);
    const bad = times > 1 || !call;
    return bad ? this.paint(`${what}${count}${known}`, "red") : `${what}${count}${this.paint(known, "dim")}`;
  }

  /** The source of the ledger's knowledge that the call happened. */
  private evidence({ attempt, settledBy, by }: NonNullable<Row["call"]>): string {
    if (by !== null) return `${by} said so`;
    return settledBy === "verify" ? `attempt ${attempt} verified` : `attempt ${attempt} answered`;
  }

  note(text: string): void {
    this.print(this.paint(`  ${text}`, "dim"));
  }

  problem(text: string): void {
    this.print(`  ${this.paint(`! ${text}`, "red")}`);
  }

  next(lines: readonly [string, string][]): void {
    this.print("");
    const width = Math.max(...lines.map(([what]) => what.length));
    for (const [what, where] of lines) this.print(`  ${this.paint(what.padEnd(width), "dim")}  ${where}`);
    this.print("");
  }

  private line(sign: string, text: string, ...styles: Style[]): void {
    const number = this.number.padStart(INDENT - 4);
    this.number = "";
    const [first = "", ...rest] = this.wrap(text);
    this.print(`${this.paint(number, "dim")}  ${this.paint(`${sign} ${first}`, ...styles)}`);
    for (const each of rest) this.print(`${" ".repeat(INDENT)}${this.paint(each, ...styles)}`);
  }

  private wrap(text: string): string[] {
    if (!this.out.isTTY) return [text];
    const width = Math.max(30, Math.min(this.out.columns || 80, WIDEST) - INDENT);
    const lines = [""];
    for (const word of text.split(" ")) {
      const last = lines.at(-1) as string;
      if (last !== "" && last.length + 1 + word.length > width) lines.push(word);
      else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
    }
    return lines;
  }

  private paint(text: string, ...styles: Style[]): string {
    if (!this.colour || text.trim() === "") return text;
    return `${styles.map((style) => `\x1b[${CODES[style]}m`).join("")}${text}\x1b[0m`;
  }

  private print(line: string): void {
    this.out.write(`${line}\n`);
  }
}
