/**
 * Not imported: an import would load all exports of the module, `fetch` included, which takes longer than
 * an agent's start.
 */
const { request: httpRequest } = process.getBuiltinModule("node:http");

/** An answer other than 200. The ledger reads a 4xx as a definite refusal. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the world answered ${status}`);
    this.status = status;
  }
}

/** One request to the world. */
export function post<Body>(
  socketPath: string,
  path: string,
  body: unknown,
  signal?: AbortSignal,
  sent?: () => void,
): Promise<Body> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { socketPath, path, method: "POST", agent: false, ...(signal && { signal }) },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          if (response.statusCode === 200) resolve(JSON.parse(Buffer.concat(chunks).toString()) as Body);
          else reject(new Refusal(response.statusCode ?? 0));
        });
      },
    );
    request.on("error", reject);
    if (sent) request.on("finish", sent);
    request.end(JSON.stringify(body));
  });
}
