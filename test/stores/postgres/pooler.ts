import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accountWithoutRights, freePort, type PostgresServer, USER } from "./server.ts";

const PGBOUNCER = "pgbouncer";

export const hasPgbouncer = works(PGBOUNCER, "--version");

function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** pgbouncer in transaction mode: after each transaction the server connection goes to another client. */
export class Pooler {
  readonly #folder: string;
  readonly #child: ChildProcess;
  readonly port: number;

  private constructor(folder: string, child: ChildProcess, port: number) {
    this.#folder = folder;
    this.#child = child;
    this.port = port;
  }

  static async before(server: PostgresServer): Promise<Pooler> {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-pooler-"));
    const port = await freePort();
    const account = accountWithoutRights();
    if (account.uid !== undefined && account.gid !== undefined) chownSync(folder, account.uid, account.gid);
    const config = [
      "[databases]",
      `postgres = host=${server.folder} port=${server.port} user=${USER}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      // Fewer than the clients have, so that no client keeps the same one for long.
      "default_pool_size = 3",
      "max_client_conn = 500",
    ];
    writeFileSync(join(folder, "pgbouncer.ini"), `${config.join("\n")}\n`);
    const child = spawn(PGBOUNCER, ["-q", join(folder, "pgbouncer.ini")], {
      ...account,
      cwd: folder,
      stdio: "ignore",
    });
    const pooler = new Pooler(folder, child, port);
    while (!(await answers(port))) {
      if (child.exitCode !== null) throw new Error("pgbouncer did not start");
    }
    return pooler;
  }

  get url(): string {
    return `postgres://${USER}@127.0.0.1:${this.port}/postgres`;
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, "exit");
    rmSync(this.#folder, { recursive: true });
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => setTimeout(() => resolve(false), 20));
  });
}
