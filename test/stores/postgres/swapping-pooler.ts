import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { type PostgresServer, USER } from "./server.ts";

/** Server messages: an error, and ready for the next statement. */
const ERROR = "E";
const READY = "Z";
/** Client messages after which it waits for an answer: a simple query, and Sync. */
const ENDS = ["Q", "S"];
const LEAVES = "X";

interface Message {
  readonly type: string;
  /** With type and length. */
  readonly bytes: Buffer;
}

/** Calls back with each whole message. */
function framed(take: (message: Message) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const bytes = rest.subarray(0, rest.readInt32BE(1) + 1);
      rest = rest.subarray(bytes.length);
      take({ type: String.fromCharCode(bytes[0] ?? 0), bytes });
    }
  };
}

const integer = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const message = (type: string, ...parts: readonly (Buffer | string)[]): Buffer => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.from(type), integer(body.length + 4), body]);
};

/** A server connection, and the client that it serves at the moment. */
interface Behind {
  readonly socket: Socket;
  answer: (message: Message) => void;
}

interface Waiter {
  /** The server connection of its last transaction. */
  readonly last: Behind | null;
  readonly use: (behind: Behind) => void;
}

/**
 * A transaction pooler without support for prepared statements: each transaction goes to another server
 * connection than the last, with whatever is prepared there.
 */
export class SwappingPooler {
  /** SQLSTATE of every error that the server answered. */
  readonly refusals: string[] = [];
  readonly #server: Server;
  readonly #sockets: Socket[] = [];
  readonly #free: Behind[] = [];
  readonly #waiting: Waiter[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async before({ folder, port }: PostgresServer, connections: number): Promise<SwappingPooler> {
    const pooler = new SwappingPooler(createServer());
    for (let each = 0; each < connections; each++) await pooler.#dial(`${folder}/.s.PGSQL.${port}`);
    pooler.#server.on("connection", (client) => pooler.#serve(client)).listen(0, "127.0.0.1");
    await once(pooler.#server, "listening");
    return pooler;
  }

  get url(): string {
    return `postgres://${USER}@127.0.0.1:${(this.#server.address() as AddressInfo).port}/postgres`;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #dial(path: string): Promise<void> {
    const socket = connect(path).on("error", () => undefined);
    this.#sockets.push(socket);
    const settings = Buffer.from(`user\0${USER}\0database\0postgres\0\0`);
    socket.write(Buffer.concat([integer(settings.length + 8), integer(196_608), settings]));
    await new Promise<void>((resolve) => {
      const behind: Behind = { socket, answer: ({ type }) => type === READY && resolve() };
      this.#free.push(behind);
      socket.on(
        "data",
        framed((each) => behind.answer(each)),
      );
    });
  }

  #serve(client: Socket): void {
    this.#sockets.push(client);
    client.setNoDelay().on("error", () => undefined);
    client.once("data", () => {
      client.write(
        Buffer.concat([message("R", integer(0)), message("K", integer(1), integer(1)), message(READY, "I")]),
      );
      let asked: Buffer[] = [];
      let last: Behind | null = null;
      let isWithin = false;
      const take = framed(({ type, bytes }) => {
        if (type === LEAVES) client.end();
        asked.push(bytes);
        if (!ENDS.includes(type)) return;
        const question = Buffer.concat(asked);
        asked = [];
        const use = (behind: Behind): void => {
          last = behind;
          behind.answer = (said) => {
            if (said.type === ERROR) this.refusals.push(stateOf(said));
            if (said.type === READY) isWithin = said.bytes.at(-1) !== IDLE;
            if (said.type === READY && !isWithin) this.#release(behind);
            client.write(said.bytes);
          };
          behind.socket.write(question);
        };
        if (last && isWithin) use(last);
        else this.#take({ last, use });
      });
      client.on("data", take);
    });
  }

  #take(waiter: Waiter): void {
    const place = this.#free.findIndex((behind) => behind !== waiter.last);
    if (place < 0) this.#waiting.push(waiter);
    else for (const behind of this.#free.splice(place, 1)) waiter.use(behind);
  }

  #release(behind: Behind): void {
    const place = this.#waiting.findIndex(({ last }) => last !== behind);
    if (place < 0) this.#free.push(behind);
    else for (const waiter of this.#waiting.splice(place, 1)) waiter.use(behind);
  }
}

const IDLE = "I".charCodeAt(0);

const stateOf = ({ bytes }: Message): string => /\0C([0-9A-Z]{5})\0/.exec(`${bytes}`)?.[1] ?? "";
