/** What the SDK calls them in a tool's output, by the place at which it takes bytes. */
const BYTES = ["data", "fileData"];
const NESTED = ["image", "file"];

/**
 * What a tool returned, as it can be stored. The SDK takes the bytes of an image or a file as they are or in base64, and makes
 * the same of both; JSON can hold only the latter. Bytes anywhere else stay: the SDK itself would send them as JSON.
 */
export function storable(output: unknown): unknown {
  if (Array.isArray(output)) return output.map(storable);
  if (!isRecord(output) || (output["type"] !== "image" && output["type"] !== "file")) return output;
  const nested = NESTED.flatMap((name) => {
    const value = output[name];
    return isRecord(value) ? [[name, { ...value, ...encoded(value) }]] : [];
  });
  return { ...output, ...encoded(output), ...Object.fromEntries(nested) };
}

function encoded(record: Record<string, unknown>): Record<string, string> {
  const members = BYTES.flatMap((name) => {
    const value = record[name];
    return value instanceof Uint8Array ? [[name, Buffer.from(value).toString("base64")]] : [];
  });
  return Object.fromEntries(members);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}
