/** The server as a process: on stdin and stdout, until the client closes its end or a signal comes. */

import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { AgentDesk, type DeskOptions } from "./agent-desk.ts";
import { buildServer } from "./server.ts";

export async function serve(options: DeskOptions): Promise<void> {
  const desk = new AgentDesk(options);
  const transport = new StdioServerTransport();
  const ended = new Promise<void>((resolve) => {
    process.stdin.once("end", resolve);
    process.stdin.once("close", resolve);
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve());
  });
  const handle = serveStdio(
    () => {
      const server = buildServer(desk);
      server.server.oninitialized = () => desk.meet(server.server.getClientVersion()?.name);
      return server;
    },
    { transport, onerror: (error) => process.stderr.write(`holdfast mcp: ${error.message}\n`) },
  );
  await ended;
  await handle.close();
  await desk.close();
}
