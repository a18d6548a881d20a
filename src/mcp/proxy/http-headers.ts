/**
 * Headers of the protocol of 2026-07-28 that repeat parts of the message, so that a gateway need not read the
 * body: `Mcp-Method`, `Mcp-Name`, and `Mcp-Param-…` for arguments whose schema has `x-mcp-header`. A gateway
 * trusts them, so a request whose body says something else is refused.
 */

import { toolsIn } from "./introduction.ts";
import { HEADER_MISMATCH, INVALID_PARAMS, isRequest, type Message, type RpcError } from "./json-rpc.ts";

const VERSION = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const FIRST_WITH_ENVELOPE = "2026-07-28";
const NAMED: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

/** Empty for a message of an older protocol, which names no version. */
export function headersOf({ method = "", params }: Message): Record<string, string> {
  const meta = Object(params?.["_meta"]) as Readonly<Record<string, unknown>>;
  const version = meta[VERSION];
  if (typeof version !== "string" || !/^[\w.-]+$/.test(version)) return {};
  const name = params?.[NAMED[method] ?? ""];
  return {
    "Mcp-Protocol-Version": version,
    "Mcp-Method": encoded(method),
    ...(typeof name === "string" && { "Mcp-Name": encoded(name) }),
  };
}

/** The error for a message that lacks what its protocol requires, or that its headers contradict. */
export function refusedFor(headers: Headers, message: Message): RpcError | null {
  return isRequest(message)
    ? (missingEnvelope(headers, message) ?? mismatch(headers, headersOf(message)))
    : null;
}

function missingEnvelope(headers: Headers, { params }: Message): RpcError | null {
  const meta = Object(params?.["_meta"]) as Readonly<Record<string, unknown>>;
  const named = headers.get("Mcp-Protocol-Version") ?? "";
  const isNamed = /^\d{4}-\d\d-\d\d$/.test(named) && named >= FIRST_WITH_ENVELOPE;
  if (!isNamed && meta[VERSION] === undefined) return null;
  const missing = [
    ...(typeof meta[VERSION] === "string" ? [] : [VERSION]),
    ...(typeof meta[CAPABILITIES] === "object" && meta[CAPABILITIES] !== null ? [] : [CAPABILITIES]),
  ];
  if (missing.length === 0) return null;
  return { code: INVALID_PARAMS, message: `_meta: ${missing.join(" and ")} missing` };
}

/** The error for a header that does not say what the body says. A header may be encoded or not. */
export function mismatch(headers: Headers, expected: Readonly<Record<string, string>>): RpcError | null {
  const wrong = Object.entries(expected).find(([name, value]) => {
    const given = headers.get(name);
    return given === null || decoded(given) !== decoded(value);
  });
  return wrong ? { code: HEADER_MISMATCH, message: `the header ${wrong[0]} differs from the body` } : null;
}

interface Parameter {
  readonly path: readonly string[];
  readonly header: string;
}

/** The arguments that a server wants in headers, from its list of tools. */
export class ParameterHeaders {
  private readonly tools = new Map<string, readonly Parameter[]>();

  learn(result: unknown): void {
    for (const tool of toolsIn(result)) {
      const { inputSchema } = tool as { inputSchema?: unknown };
      this.tools.set(tool.name, parametersIn(inputSchema, []));
    }
  }

  of({ method, params }: Message): Record<string, string> {
    if (method !== "tools/call") return {};
    const found = this.tools.get(String(params?.["name"])) ?? [];
    return Object.fromEntries(
      found.flatMap(({ path, header }) => {
        const value = path.reduce<unknown>(
          (inside, key) => (Object(inside) as Readonly<Record<string, unknown>>)[key],
          params?.["arguments"],
        );
        const isPlain = ["string", "number", "boolean"].includes(typeof value);
        return isPlain ? [[`Mcp-Param-${header}`, encoded(String(value))]] : [];
      }),
    );
  }
}

const DEEPEST = 20;

function parametersIn(schema: unknown, path: readonly string[]): readonly Parameter[] {
  const { properties } = Object(schema) as { properties?: unknown };
  if (path.length >= DEEPEST) return [];
  return Object.entries(Object(properties) as Readonly<Record<string, unknown>>).flatMap(([key, each]) => {
    const header = (Object(each) as Readonly<Record<string, unknown>>)["x-mcp-header"];
    const inside = parametersIn(each, [...path, key]);
    const isName = typeof header === "string" && /^[\w!#$%&'*+.^`|~-]+$/.test(header);
    return isName ? [{ path: [...path, key], header }, ...inside] : inside;
  });
}

/** A value that a header cannot hold is sent as `=?base64?…?=`. */
function encoded(value: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !/^=\?base64\?.*\?=$/i.test(value);
  return isPlain ? value : `=?base64?${Buffer.from(value, "utf8").toString("base64")}?=`;
}

/** Null if it is no Base64. */
function decoded(value: string): string | null {
  const [, text] = /^=\?base64\?(.*)\?=$/i.exec(value) ?? [];
  if (text === undefined) return value;
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes.toString("utf8") : null;
}
