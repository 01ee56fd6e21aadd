// Starts the OpenID Connect provider as a process of its own, and plays the browser between it and the service.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface OpenId {
  readonly url: string;
  /** Who logs in next; with `deny` they refuse. */
  person(person: object): Promise<void>;
  stop(): Promise<void>;
}

export async function startOpenId(): Promise<OpenId> {
  const program = fileURLToPath(new URL('openid.ts', import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exited.then(([code]) => Promise.reject(new Error(`the provider ended with ${code}`))),
  ]);
  const { url }: { url: string } = JSON.parse(line);
  return {
    url,
    async person(person) {
      const response = await fetch(`${url}/_person`, { method: 'PUT', body: JSON.stringify(person) });
      if (response.status !== 204) throw new Error(`the provider answered with ${response.status}`);
    },
    async stop() {
      child.kill();
      await exited;
    },
  };
}

/** The variables by which a server knows the provider under a name that it knows too: `corp` or `other`. */
export function openIdVariables(url: string, name = 'corp'): Record<string, string> {
  const prefix = `SERVICE_OIDC_${name.toUpperCase()}`;
  return {
    SERVICE_OIDC_PROVIDERS: name,
    [`${prefix}_ISSUER`]: url,
    [`${prefix}_CLIENT_ID`]: name,
    [`${prefix}_CLIENT_SECRET`]: `the-secret-of-${name}`,
    [`${prefix}_REGISTRATION`]: 'open',
  };
}

/** A browser: it keeps the cookies of each origin, and goes where it is sent. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>();

  /** One request; redirects are not followed. */
  async visit(address: string, init: RequestInit = {}): Promise<Response> {
    const { origin } = new URL(address);
    const jar = this.#cookies.get(origin) ?? new Map<string, string>();
    this.#cookies.set(origin, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = new Headers(init.headers);
    if (cookie !== '') headers.set('cookie', cookie);
    const response = await fetch(address, { ...init, headers, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
      const at = pair.indexOf('=');
      const gone = attributes.some(
        (one) => /^max-age=0$/i.test(one) || /^expires=Thu, 01 Jan 1970/i.test(one),
      );
      if (gone) jar.delete(pair.slice(0, at));
      else jar.set(pair.slice(0, at), pair.slice(at + 1));
    }
    return response;
  }

  /** Goes on until it is sent to an address that `until` takes, and answers with that, unvisited. */
  async follow(address: string, until: (url: URL) => boolean): Promise<URL> {
    let at = new URL(address);
    for (let hops = 0; hops < 15; hops += 1) {
      if (until(at)) return at;
      const response = await this.visit(at.href);
      const location = response.headers.get('location');
      if (location === null) throw new Error(`${at} answered ${response.status}: ${await response.text()}`);
      at = new URL(location, at);
    }
    throw new Error(`${address} leads nowhere`);
  }

  cookiesFor(origin: string): ReadonlyMap<string, string> {
    return this.#cookies.get(origin) ?? new Map();
  }
}
