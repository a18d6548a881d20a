/**
 * The SDK passes over a line that is no JSON without a word, and a client that waits for an answer waits for ever. JSON-RPC
 * has one for it, without an id: this reads along, and says which lines want it.
 */

const END = 0x0a;
const SHOWN = 80;

export class BrokenLines {
  private readonly refuse: (message: string) => void;
  private parts: Buffer[] = [];

  constructor(refuse: (message: string) => void) {
    this.refuse = refuse;
  }

  readonly hear = (chunk: Buffer): void => {
    let from = 0;
    for (let end = chunk.indexOf(END); end >= 0; end = chunk.indexOf(END, from)) {
      this.look(Buffer.concat([...this.parts, chunk.subarray(from, end)]).toString("utf8"));
      this.parts = [];
      from = end + 1;
    }
    if (from < chunk.length) this.parts.push(chunk.subarray(from));
  };

  private look(line: string): void {
    if (line.trim() === "") return;
    try {
      JSON.parse(line);
    } catch (error) {
      this.refuse(`a line is no JSON (${(error as Error).message}): ${line.slice(0, SHOWN)}`);
    }
  }
}
