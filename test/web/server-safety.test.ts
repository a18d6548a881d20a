// The safety rules of the server, each tried with a raw socket: what a browser would never send is sent here.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { type ServedPage, startPage } from "./page.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-web-"));
const store = join(folder, "store.db");
let page: ServedPage;
let readOnly: ServedPage;
let cookie = "";
let csrf = "";

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function parseAnswer(text: string): Answer {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [first = "", ...lines] = head.split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(":")).toLowerCase(),
      line.slice(line.indexOf(":") + 1).trim(),
    ]),
  );
  return { status: Number(first.split(" ")[1]), headers, body: rest.join("\r\n\r\n") };
}

/** Sends exactly these bytes and returns what comes back until the server closes. */
function raw(text: string, { host = "127.0.0.1", port = page.port } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    let got = "";
    socket.on("data", (chunk) => {
      got += chunk.toString("latin1");
    });
    socket.on("close", () => resolve(parseAnswer(got)));
    socket.on("error", (error) => (got === "" ? reject(error) : resolve(parseAnswer(got))));
    socket.write(text);
  });
}

type Headers = Readonly<Record<string, string | undefined>>;

function request(method: string, path: string, given: Headers = {}, body = "", to = page): Promise<Answer> {
  const all: Headers = { Host: `127.0.0.1:${to.port}`, Connection: "close", ...given };
  const length = body === "" && method === "GET" ? {} : { "Content-Length": String(Buffer.byteLength(body)) };
  const lines = Object.entries({ ...all, ...length }).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}`],
  );
  return raw(`${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`, { port: to.port });
}

const origin = (): string => `http://127.0.0.1:${page.port}`;
const writer = (): Headers => ({
  Cookie: cookie,
  Origin: origin(),
  "Content-Type": "application/json",
  "X-Holdfast-CSRF": csrf,
});

async function logIn(to: ServedPage): Promise<{ cookie: string; csrf: string; answer: Answer }> {
  const token = to.url.split("#token=")[1] ?? "";
  const headers = { Origin: `http://127.0.0.1:${to.port}`, "Content-Type": "application/json" };
  const answer = await request("POST", "/api/login", headers, JSON.stringify({ token }), to);
  const [set = ""] = (answer.headers["set-cookie"] ?? "").split(";");
  return { cookie: set, csrf: (JSON.parse(unchunked(answer.body)) as { csrf: string }).csrf, answer };
}

function unchunked(body: string): string {
  return body.startsWith("{")
    ? body
    : body
        .split("\r\n")
        .filter((_, index) => index % 2 === 1)
        .join("");
}

beforeAll(async () => {
  const holdfast = await open(store);
  for (const id of ["one", "two"]) {
    const session = await holdfast.session(id);
    await session.append({ role: "user", blocks: [{ kind: "text", text: "hello" }] });
    await session.close();
  }
  await holdfast.putArtifact(Buffer.from("<script>alert(1)</script>"));
  await holdfast.close();
  page = await startPage(store);
  readOnly = await startPage(store, { readOnly: "it was started with --read-only" });
  ({ cookie, csrf } = await logIn(page));
});

afterAll(async () => {
  await page.close();
  await readOnly.close();
  rmSync(folder, { recursive: true, force: true });
});

const ROUTES = [
  "/",
  "/page.js",
  "/page.css",
  "/api/me",
  "/api/op/status",
  "/api/op/session-list",
  "/api/live",
  "/nothing",
];

describe("address and host", () => {
  test("it listens on loopback addresses only", async () => {
    const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    const outside = own.filter(({ internal, family }) => !internal && family === "IPv4");
    for (const { address } of outside) {
      await expect(raw("GET / HTTP/1.1\r\n\r\n", { host: address })).rejects.toThrow(/ECONNREFUSED/);
    }
    expect((await request("GET", "/")).status).toBe(200);
  });

  test.each(["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost", "0.0.0.0:80", ""])(
    "a request to the host %j gets 421 on every route",
    async (host) => {
      for (const path of ROUTES)
        expect([path, (await request("GET", path, { ...writer(), Host: host })).status]).toEqual([
          path,
          host === "" ? 421 : 421,
        ]);
    },
  );

  test("two Host headers, or none, get no answer from the store", async () => {
    const two = await raw(
      `GET /api/me HTTP/1.1\r\nHost: 127.0.0.1:${page.port}\r\nHost: evil.example\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`,
    );
    expect([400, 421]).toContain(two.status);
    expect((await raw(`GET /api/me HTTP/1.0\r\nCookie: ${cookie}\r\n\r\n`)).status).toBe(421);
  });

  test("its own three names are fine", async () => {
    for (const name of ["127.0.0.1", "localhost", "[::1]"]) {
      const answer = await request("GET", "/api/me", { Host: `${name}:${page.port}`, Cookie: cookie });
      expect([name, answer.status]).toEqual([name, 200]);
    }
  });
});

describe("token and cookie", () => {
  test("the token has 128 bits and is in the fragment of the address", () => {
    const { hash, search, pathname } = new URL(page.url);
    expect({ search, pathname }).toEqual({ search: "", pathname: "/" });
    expect(Buffer.from(hash.replace("#token=", ""), "base64url")).toHaveLength(16);
    expect(page.url).not.toBe(readOnly.url);
  });

  test("the cookie is named after the port, and no script, other site or other path gets it", async () => {
    const { answer } = await logIn(page);
    expect(answer.headers["set-cookie"]).toMatch(
      new RegExp(`^holdfast-${page.port}=[\\w-]{43}; HttpOnly; SameSite=Strict; Path=/$`),
    );
  });

  test("without the cookie every route of the store answers 401 with the same words", async () => {
    const paths = ["/api/me", "/api/op/status", "/api/op/session-list", `/api/artifact/${"0".repeat(64)}`];
    const answers = await Promise.all(paths.map((path) => request("GET", path)));
    expect(answers.map(({ status }) => status)).toEqual(paths.map(() => 401));
    expect(new Set(answers.map(({ body }) => unchunked(body))).size).toBe(1);
    expect(answers[0]?.body).not.toMatch(/store|sqlite|session/);
  });

  test("a wrong token, and the cookie of another start, get 401", async () => {
    const wrong = await request(
      "POST",
      "/api/login",
      { Origin: origin(), "Content-Type": "application/json" },
      '{"token":"AAAAAAAAAAAAAAAAAAAAAA"}',
    );
    expect(wrong.status).toBe(401);
    expect(wrong.headers["set-cookie"]).toBeUndefined();
    const other = await logIn(readOnly);
    const value = other.cookie.split("=")[1];
    expect((await request("GET", "/api/me", { Cookie: `holdfast-${page.port}=${value}` })).status).toBe(401);
  });

  test("the login itself needs our own origin", async () => {
    const token = page.url.split("#token=")[1];
    for (const from of [undefined, "null", "http://evil.example", `http://127.0.0.1:${readOnly.port}`]) {
      const answer = await request(
        "POST",
        "/api/login",
        { Origin: from, "Content-Type": "application/json" },
        JSON.stringify({ token }),
      );
      expect([from, answer.status]).toEqual([from, 403]);
    }
  });
});

describe("changes", () => {
  const cancel = '{"session":"one","why":"test"}';
  const status = async (session: string): Promise<string> =>
    (await (await page.context.holdfast()).sessions.get(session)).status;

  test.each<[string, Headers, number]>([
    ["without an origin", { Origin: undefined }, 403],
    ["from the origin null", { Origin: "null" }, 403],
    ["from another origin", { Origin: "http://evil.example" }, 403],
    ["from another port", { Origin: "http://127.0.0.1:1" }, 403],
    ["from a page of another site", { "Sec-Fetch-Site": "cross-site" }, 403],
    ["from another port of this machine", { "Sec-Fetch-Site": "same-site" }, 403],
    ["as a form", { "Content-Type": "application/x-www-form-urlencoded" }, 415],
    ["as plain text, like a beacon", { "Content-Type": "text/plain;charset=UTF-8" }, 415],
    ["without a type", { "Content-Type": undefined }, 415],
    ["without the CSRF header", { "X-Holdfast-CSRF": undefined }, 403],
    ["with a wrong CSRF header", { "X-Holdfast-CSRF": "x" }, 403],
    ["without the cookie", { Cookie: undefined }, 401],
  ])("a change %s changes nothing", async (_, headers, expected) => {
    const answer = await request("POST", "/api/op/session-cancel", { ...writer(), ...headers }, cancel);
    expect(answer.status).toBe(expected);
    expect(await status("one")).toBe("active");
  });

  test("a change by GET, PUT or DELETE is refused", async () => {
    const path = `/api/op/session-cancel?input=${encodeURIComponent(cancel)}`;
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
      expect((await request(method, path, writer())).status).toBe(405);
    expect(await status("one")).toBe("active");
  });

  test("a preflight is refused, and no answer allows another origin", async () => {
    const answer = await request("OPTIONS", "/api/op/session-cancel", {
      Origin: "http://evil.example",
      "Access-Control-Request-Method": "POST",
    });
    expect(answer.status).toBe(403);
    for (const path of ROUTES) {
      const { headers } = await request("GET", path, { Cookie: cookie });
      expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
  });

  test("operations that write files, and acts that the page does not offer, do not exist here", async () => {
    for (const name of ["export", "import", "init", "prune", "move-store", "goal-new", "migrate"])
      expect([name, (await request("POST", `/api/op/${name}`, writer(), "{}")).status]).toEqual([name, 404]);
    expect((await request("GET", "/api/op/export", { Cookie: cookie })).status).toBe(404);
  });

  test("a page that is read only refuses every change", async () => {
    const own = await logIn(readOnly);
    const headers = {
      Cookie: own.cookie,
      "X-Holdfast-CSRF": own.csrf,
      Origin: `http://127.0.0.1:${readOnly.port}`,
      "Content-Type": "application/json",
    };
    const answer = await request("POST", "/api/op/session-cancel", headers, cancel, readOnly);
    expect([answer.status, unchunked(answer.body)]).toEqual([403, expect.stringContaining("read only")]);
    expect(await status("one")).toBe("active");
  });

  test("a change with everything right is made, under the server's name and marked as from the web", async () => {
    const answer = await request(
      "POST",
      "/api/op/session-cancel",
      writer(),
      '{"session":"two","why":"test","by":"mallory"}',
    );
    expect([answer.status, unchunked(answer.body)]).toEqual([200, expect.stringContaining("cancelled")]);
    const { journal } = await page.context.holdfast();
    const events = [];
    for await (const [, event] of journal.events("session/two")) events.push(event);
    expect(events.at(-1)).toMatchObject({
      type: "session.status",
      data: { by: "ann", why: "test", via: "web" },
    });
  });
});

describe("headers and paths", () => {
  test("every answer carries the policy and its companions", async () => {
    for (const path of [...ROUTES, "/..%2fetc"]) {
      for (const host of [`127.0.0.1:${page.port}`, "evil.example"]) {
        const { headers } = await request("GET", path, { Cookie: cookie, Host: host });
        expect(headers).toMatchObject({
          "content-security-policy":
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " +
            "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
          "cross-origin-resource-policy": "same-origin",
          "cross-origin-opener-policy": "same-origin",
          "x-frame-options": "DENY",
          "x-content-type-options": "nosniff",
          "referrer-policy": "no-referrer",
          "cache-control": "no-store",
        });
      }
    }
  });

  test.each([
    "/..%2fpackage.json",
    "/../package.json",
    "/%00",
    "//",
    "//page.js",
    "/page.js/",
    "/.\\page.js",
    "/page.js%00",
    "/PAGE.JS",
    "/ui/page.js",
    "http://evil.example/",
    "/api/op/../me",
    "/api//me",
  ])("the path %j does not exist", async (path) =>
    expect((await request("GET", path, { Cookie: cookie })).status).toBe(404),
  );

  test("an artifact is a download by its hash, and nothing else", async () => {
    const hash = createHash("sha256").update("<script>alert(1)</script>").digest("hex");
    const answer = await request("GET", `/api/artifact/${hash}`, { Cookie: cookie });
    expect(answer.status).toBe(200);
    expect(answer.headers["content-type"]).toBe("application/octet-stream");
    expect(answer.headers["content-disposition"]).toBe(`attachment; filename="${hash}"`);
    expect(answer.headers["content-security-policy"]).toMatch(/; sandbox$/);
    for (const other of [hash.toUpperCase(), hash.slice(1), `${hash}0`, "..%2f..%2fetc%2fpasswd"])
      expect((await request("GET", `/api/artifact/${other}`, { Cookie: cookie })).status).toBe(404);
    expect((await request("GET", `/api/artifact/${"0".repeat(64)}`, { Cookie: cookie })).status).toBe(404);
  });
});

describe("limits", () => {
  test("long headers and long bodies are refused", async () => {
    expect((await request("GET", "/", { "X-Long": "a".repeat(9_000) })).status).toBe(431);
    const long = JSON.stringify({ session: "one", why: "a".repeat(1_100_000) });
    expect((await request("POST", "/api/op/session-cancel", writer(), long)).status).toBe(413);
  });

  test("the 17th stream of changes gets 429, and a closed one makes room", async () => {
    const openStream = (): Promise<{ socket: Socket; status: number }> =>
      new Promise((resolve, reject) => {
        const socket = connect(page.port, "127.0.0.1");
        const lines = Object.entries({
          Host: `127.0.0.1:${page.port}`,
          ...writer(),
          "Content-Length": "2",
        }).map(([name, value]) => `${name}: ${value}`);
        socket.write(`POST /api/live HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n{}`);
        socket.once("data", (chunk) => resolve({ socket, status: Number(chunk.toString().split(" ")[1]) }));
        socket.once("error", reject);
      });
    const streams = [];
    for (let count = 0; count < 16; count++) streams.push(await openStream());
    expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200));
    const last = await openStream();
    expect(last.status).toBe(429);
    last.socket.destroy();
    streams[0]?.socket.destroy();
    let status = 429;
    while (status === 429) {
      const again = await openStream();
      ({ status } = again);
      again.socket.destroy();
    }
    for (const { socket } of streams) socket.destroy();
    expect(status).toBe(200);
  });

  test("a stream of changes needs cookie, origin and CSRF header, and is no GET", async () => {
    expect((await request("GET", "/api/live", writer())).status).toBe(405);
    expect((await request("POST", "/api/live", { ...writer(), Origin: undefined }, "{}")).status).toBe(403);
    expect((await request("POST", "/api/live", { ...writer(), Cookie: undefined }, "{}")).status).toBe(401);
    expect(
      (await request("POST", "/api/live", { ...writer(), "X-Holdfast-CSRF": undefined }, "{}")).status,
    ).toBe(403);
  });

  test("hundreds of sockets that send nothing leave the store usable", async () => {
    const sockets = Array.from({ length: 300 }, () =>
      connect(page.port, "127.0.0.1").on("error", () => undefined),
    );
    const holdfast = await open(store);
    const session = await holdfast.session("three");
    await session.append({ role: "user", blocks: [{ kind: "text", text: "hello" }] });
    await session.close();
    await holdfast.close();
    for (const socket of sockets) socket.destroy();
    let status = 0;
    while (status !== 200)
      ({ status } = await request("GET", "/api/me", { Cookie: cookie }).catch(() => ({ status: 0 })));
    expect(status).toBe(200);
  });

  test("a result of megabytes is cut on the server", async () => {
    const holdfast = await open(store);
    const session = await holdfast.session("long");
    const deep = `${"[".repeat(500)}${"]".repeat(500)}`;
    await session.append({
      role: "user",
      blocks: [{ kind: "text", text: `${"x".repeat(5_000_000)}${deep}` }],
    });
    await session.checkpoint();
    await session.close();
    await holdfast.close();
    const input = encodeURIComponent('{"session":"long","version":1}');
    const answer = await request("GET", `/api/op/session-at?input=${input}`, { Cookie: cookie });
    expect(answer.status).toBe(200);
    expect(answer.body.length).toBeLessThan(20_000);
    expect(answer.body).toContain("more characters");
  });
});

test("a log-out ends the streams and clears the cookie", async () => {
  const other = await startPage(store);
  const own = await logIn(other);
  const headers = {
    Cookie: own.cookie,
    "X-Holdfast-CSRF": own.csrf,
    Origin: `http://127.0.0.1:${other.port}`,
    "Content-Type": "application/json",
  };
  const stream = request("POST", "/api/live", headers, "{}", other);
  const out = await request("POST", "/api/logout", headers, "{}", other);
  expect(out.headers["set-cookie"]).toContain("Max-Age=0");
  expect(out.headers["clear-site-data"]).toBe('"cookies", "storage"');
  await stream;
  await other.close();
});
