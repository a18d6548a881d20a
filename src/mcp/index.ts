/** MCP in both directions: Holdfast as a server for agents, and Holdfast around any other server. Loaded when it is used. */

import type { ProxyConfig } from "./proxy/proxy-config.ts";
import type { RunProxyOptions } from "./proxy/run-proxy.ts";
import type { DeskOptions } from "./server/agent-desk.ts";

export type { Keep } from "./proxy/proxy.ts";

/** Runs the server for agents until its client closes its end. */
export async function serveMcp(options: DeskOptions): Promise<void> {
  const { serve } = await import("./server/serve.ts");
  await serve(options);
}

/** Runs the durable proxy until its client closes its end. */
export async function runProxy(options: RunProxyOptions): Promise<void> {
  const { runProxy: run } = await import("./proxy/run-proxy.ts");
  await run(options);
}

/** What a configuration says, or what is wrong in it. */
export async function readProxyConfig(file: string): Promise<ProxyConfig> {
  const { readProxyConfig: read } = await import("./proxy/proxy-config.ts");
  return read(file);
}
