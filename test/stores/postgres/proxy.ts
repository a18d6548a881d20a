import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** A rule for a client message that contains the text. */
interface Trap {
  readonly text: string;
  /**
   * `reply`: the server gets the message, but the client not the answer. `request`: the server does not get
   * it.
   */
  readonly cut: "reply" | "request";
  readonly before?: (() => Promise<unknown>) | undefined;
}

/** A proxy between client and server that cuts the connection at the worst moment. */
export class CuttingProxy {
  /** How many connections were cut by traps. */
  cuts = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #trap: Trap | null = null;
  #isDown = false;
  #port: number;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.#port = port;
  }

  static async to(port: number): Promise<CuttingProxy> {
    const server = createServer();
    const proxy = new CuttingProxy(server, port);
    server.on("connection", (client) => proxy.#join(client, connect(proxy.#port, "127.0.0.1")));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Cuts one connection. `before` runs before the client notices. */
  setTrap(text: string, cut: Trap["cut"], before?: Trap["before"]): void {
    this.#trap = { text, cut, before };
  }

  /** Like a network failure: open connections end, and new ones fail. */
  goDown(): void {
    this.#isDown = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** `port`: that of another server, after a failover. */
  comeBack(port = this.#port): void {
    this.#port = port;
    this.#isDown = false;
  }

  async close(): Promise<void> {
    this.goDown();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(client: Socket, server: Socket): void {
    const end = () => {
      client.destroy();
      server.destroy();
      this.#sockets.delete(client);
    };
    if (this.#isDown) {
      end();
      return;
    }
    this.#sockets.add(client);
    for (const socket of [client, server]) socket.on("error", end).on("close", end);
    let isTrapped = false;
    const cut = async (trap: Trap): Promise<void> => {
      isTrapped = true;
      await trap.before?.();
      this.cuts += 1;
      end();
    };
    client.on("data", (chunk) => {
      if (isTrapped) return;
      const trap = this.#trap;
      if (!trap || !chunk.includes(trap.text)) {
        server.write(chunk);
        return;
      }
      this.#trap = null;
      if (trap.cut === "request") {
        void cut(trap);
        return;
      }
      server.write(chunk);
      server.once("data", () => void cut(trap));
      isTrapped = true;
    });
    server.on("data", (chunk) => {
      if (!isTrapped) client.write(chunk);
    });
  }
}
