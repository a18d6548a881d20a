/**
 * The checks of a request. Each one passes all of them before anything else looks at it:
 *
 *     Host        one of our three names, else 421: a foreign name that resolves to loopback is an attack
 *     path        an entry of a table, else 404: nothing is decoded, joined or normalised
 *     cookie      for everything but the page itself and the login, else 401
 *     Origin      our own for every POST, absent or our own for every GET, else 403
 *     CSRF        a header that a form, an image or a beacon cannot send, for every POST
 *     type        JSON for every POST, else 415
 *
 * The token is in the printed address only, as a fragment, which browsers do not send. The page exchanges it
 * by POST for a cookie. Both end with the process.
 */

import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isSameSecret, LoopbackNames, Refusal } from "../loopback-http.ts";

const TOKEN_BYTES = 16;
const COOKIE_BYTES = 32;

/** Sent with every answer. The policy allows our own files and nothing else, and no text becomes code. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "X-Frame-Options": "DENY",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

export class Guard {
  /** 128 bits, for the address that is printed. */
  readonly token = randomBytes(TOKEN_BYTES).toString("base64url");
  readonly csrf = randomBytes(TOKEN_BYTES).toString("base64url");
  private readonly secret = randomBytes(COOKIE_BYTES).toString("base64url");
  private readonly names = new LoopbackNames();
  private port = 0;

  /** Called once the port is known. */
  listensOn(port: number): void {
    this.port = port;
    this.names.listensOn(port);
  }

  get cookieName(): string {
    return `holdfast-${this.port}`;
  }

  get setCookie(): string {
    return `${this.cookieName}=${this.secret}; HttpOnly; SameSite=Strict; Path=/`;
  }

  get clearCookie(): string {
    return `${this.cookieName}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0`;
  }

  checkHost(request: IncomingMessage): void {
    this.names.checkHost(request);
  }

  isToken(typed: unknown): boolean {
    return typeof typed === "string" && isSameSecret(typed, this.token);
  }

  checkCookie({ headers }: IncomingMessage): void {
    const cookies = (headers.cookie ?? "").split(";").map((each) => each.trim());
    const prefix = `${this.cookieName}=`;
    const ours = cookies.filter((each) => each.startsWith(prefix)).map((each) => each.slice(prefix.length));
    if (!ours.some((each) => isSameSecret(each, this.secret)))
      throw new Refusal(401, "open the printed address");
  }

  /** For a GET: browsers send no Origin to their own page, and a foreign one proves an attack. */
  checkReader({ headers }: IncomingMessage): void {
    const { origin, "sec-fetch-site": site } = headers;
    if (origin !== undefined && !this.names.isOwn(origin)) throw new Refusal(403, "foreign origin");
    if (site !== undefined && site !== "same-origin" && site !== "none")
      throw new Refusal(403, "foreign page");
  }

  /** For a POST. The login has no CSRF header yet; its body has the token. */
  checkWriter({ headers }: IncomingMessage, { isLogin = false } = {}): void {
    const { origin, "content-type": type, "sec-fetch-site": site, "x-holdfast-csrf": csrf } = headers;
    if (origin === undefined || !this.names.isOwn(origin)) throw new Refusal(403, "foreign origin");
    if (site !== undefined && site !== "same-origin") throw new Refusal(403, "foreign page");
    if (!/^application\/json(; *charset=utf-8)?$/i.test(type ?? "")) throw new Refusal(415, "JSON only");
    if (!isLogin && !isSameSecret(String(csrf), this.csrf)) throw new Refusal(403, "no CSRF header");
  }
}
