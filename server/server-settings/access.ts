/** Who may come in, from where, and where the server goes for them. */
import proxyAddr from 'proxy-addr';
import { isLoopback } from '../config/config.ts';
import { allowListFault } from '../outbound/outbound.ts';
import { Fault, type SettingSource } from './setting-source.ts';
import { emailAddress, oneOf, wholeNumber } from './value-forms.ts';

export interface AccessSettings {
  readonly registration: 'open' | 'invite';
  /** How often one address may fail to log in to one account within a quarter of an hour; 0 brakes nothing. */
  readonly loginAttempts: number;
  /** Whose X-Forwarded-For counts. */
  readonly trustedProxies: readonly string[];
  /** How people reach this server, for links and redirects; null where nobody said it. */
  readonly publicUrl: string | null;
  readonly adminEmail: string | null;
  readonly adminPassword: string | null;
  readonly corsOrigins: readonly string[];
  /** Private places that requests of accounts and models may reach all the same. */
  readonly outboundAllow: readonly string[];
  /** Where a SearXNG answers searches; null where the settings say who does. */
  readonly webSearchUrl: string | null;
  readonly metrics: 'public' | 'operator' | 'off';
  readonly docs: 'public' | 'operator' | 'off';
}

export function readAccess(source: SettingSource, loopback: boolean): AccessSettings {
  return {
    registration: source.read({
      variable: 'SERVICE_REGISTRATION',
      flag: 'registration',
      meaning: 'open: anybody may register. invite: only with an invitation.',
      fallback: loopback ? 'open' : 'invite',
      parse: oneOf('open', 'invite'),
    }),
    loginAttempts: source.read({
      variable: 'SERVICE_LOGIN_ATTEMPTS',
      flag: 'login-attempts',
      meaning: 'How often one address may fail to log in to one account within 15 minutes; 0 brakes nothing.',
      fallback: 10,
      parse: wholeNumber(0, 1_000_000, 10),
    }),
    trustedProxies: source.read<readonly string[]>({
      variable: 'SERVICE_TRUSTED_PROXIES',
      flag: 'trusted-proxies',
      meaning:
        'The proxies whose X-Forwarded-For counts: addresses, ranges as 10.0.0.0/8, loopback, linklocal, uniquelocal; with commas between.',
      fallback: [],
      parse: proxies,
    }),
    publicUrl: source.read<string | null>({
      variable: 'SERVICE_PUBLIC_URL',
      flag: 'public-url',
      meaning:
        'How people reach this server, as https://service.example.com: for links, device logins, and the way back from OIDC providers.',
      fallback: null,
      parse: publicAddress,
    }),
    adminEmail: source.read<string | null>({
      variable: 'SERVICE_ADMIN_EMAIL',
      flag: 'admin-email',
      meaning: 'The operator to make at the first start, with SERVICE_ADMIN_PASSWORD.',
      fallback: null,
      parse: emailAddress,
    }),
    adminPassword: source.read<string | null>({
      variable: 'SERVICE_ADMIN_PASSWORD',
      meaning: 'The password of that operator; SERVICE_ADMIN_PASSWORD_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: (text) => (text.length >= 10 ? text : new Fault('must have at least 10 characters.')),
    }),
    corsOrigins: source.read<readonly string[]>({
      variable: 'SERVICE_CORS_ORIGINS',
      flag: 'cors-origins',
      meaning: 'Web pages that may call, as https://app.example.com, several with commas between; * for any.',
      fallback: [],
      parse: origins,
    }),
    outboundAllow: source.read<readonly string[]>({
      variable: 'SERVICE_OUTBOUND_ALLOW',
      flag: 'outbound-allow',
      meaning:
        'Private places that URLs of accounts and models may lead to, as ollama:11434, http://10.0.0.5, 10.1.0.0/16; with commas between.',
      fallback: [],
      parse: places,
    }),
    webSearchUrl: source.read<string | null>({
      variable: 'SERVICE_WEB_SEARCH_URL',
      flag: 'web-search-url',
      meaning:
        'The address of a SearXNG that answers in JSON; if unset, the settings say how the web is searched.',
      fallback: null,
      parse: webAddress,
    }),
    metrics: source.read({
      variable: 'SERVICE_METRICS',
      flag: 'metrics',
      meaning: 'Who may read /metrics: public, operator, or nobody (off).',
      fallback: 'public',
      parse: oneOf('public', 'operator', 'off'),
    }),
    docs: source.read({
      variable: 'SERVICE_DOCS',
      flag: 'docs',
      meaning: 'Who may read /docs, /openapi.* and /schemas: public, operator, or nobody (off).',
      fallback: 'public',
      parse: oneOf('public', 'operator', 'off'),
    }),
  };
}

function origins(text: string): readonly string[] | Fault {
  const given = text.split(',').map((origin) => origin.trim().replace(/\/$/, ''));
  const wrong = given.find((origin) => origin !== '*' && !isOrigin(origin));
  if (wrong === undefined) return given;
  return new Fault(`must list origins as https://app.example.com, with commas between; ${wrong} is none.`);
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}

function webAddress(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usable = url && /^https?:$/.test(url.protocol) && !url.username && !url.search && !url.hash;
  return usable ? url.href : new Fault('must be an address as http://localhost:8888.');
}

function publicAddress(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  const bare = url && /^https?:$/.test(url.protocol) && !url.username && url.pathname === '/';
  if (!url || !bare || url.search || url.hash)
    return new Fault('must be an address without a path, as https://service.example.com.');
  const safe = url.protocol === 'https:' || isLoopback(url.hostname);
  return safe ? url.origin : new Fault('must begin with https://: what people send there is secret.');
}

/** A range of everything would let everybody say where they come from. */
function proxies(text: string): readonly string[] | Fault {
  const given = text.split(',').map((proxy) => proxy.trim());
  const wrong = given.find((proxy) => !isProxy(proxy));
  if (wrong === undefined) return given;
  return new Fault(
    `must list addresses or ranges, as 10.0.0.0/8, with commas between; ${JSON.stringify(wrong)} is none.`,
  );
}

function isProxy(text: string): boolean {
  try {
    proxyAddr.compile(text);
    return text !== '';
  } catch {
    // The library throws a TypeError for what it cannot read, and has no other way to say so.
    return false;
  }
}

function places(text: string): readonly string[] | Fault {
  const given = text.split(',').map((place) => place.trim());
  const fault = given.map(allowListFault).find((one) => one !== null);
  return fault === undefined ? given : new Fault(`lists what cannot be used: ${fault}`);
}
