/** MCP in both directions: a server for agents, and a proxy around any other server. Both load lazily. */

import type { ProxyConfig } from "./proxy/proxy-config.ts";
import type { RunProxyOptions } from "./proxy/run-proxy.ts";
import type { ServerOptions } from "./server/agent-session.ts";
import type { OfferedTool } from "./server/tools.ts";

export type { RunCall } from "./proxy/calls.ts";

/** Serves on stdin and stdout until the client closes its end or a signal arrives. */
export async function serveMcp(options: ServerOptions): Promise<void> {
  const interrupted = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve());
  });
  const { Front } = await import("./server/front.ts");
  const front = new Front(process.stdin, process.stdout);
  if ((await Promise.race([front.ended, interrupted])) !== "needed") {
    process.stdin.destroy();
    return;
  }
  const { serve } = await import("./server/serve.ts");
  await serve(options, front.handOver(), interrupted);
}

/** Serves over HTTP until a signal arrives. `address` is the value of `--http`; `true` if it has none. */
export async function serveMcpOverHttp(options: ServerOptions, address: string | true): Promise<void> {
  const { httpAddress } = await import("./http-front.ts");
  const { serveHttp } = await import("./server/serve-http.ts");
  await serveHttp(options, httpAddress(address, process.env["HOLDFAST_MCP_TOKEN"] || undefined));
}

export async function runProxy(options: RunProxyOptions): Promise<void> {
  const { runProxy: run } = await import("./proxy/run-proxy.ts");
  await run(options);
}

/** Serves clients of the proxy over HTTP until a signal arrives. `address` is as above. */
export async function runProxyOverHttp(options: RunProxyOptions, address: string | true): Promise<void> {
  const { httpAddress } = await import("./http-front.ts");
  await runProxy({ ...options, http: httpAddress(address, process.env["HOLDFAST_MCP_TOKEN"] || undefined) });
}

export async function readProxyConfig(file: string): Promise<ProxyConfig> {
  const { readProxyConfig: read } = await import("./proxy/proxy-config.ts");
  return read(file);
}

/** The operations that agents get as tools. */
export async function loadOfferedTools(): Promise<readonly OfferedTool[]> {
  const { offeredTools } = await import("./server/tools.ts");
  return offeredTools();
}
