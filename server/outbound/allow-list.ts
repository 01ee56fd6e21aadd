/** The places that an operator lists, and which addresses and URLs they cover. */
import ipaddr from 'ipaddr.js';

export interface AllowList {
  /** Whether the host of a URL is listed by its name or address, with its port and scheme where those were given. */
  readonly names: (url: URL) => boolean;
  /** Whether an address lies in a listed range. */
  readonly covers: (address: string) => boolean;
}

interface ListedHost {
  readonly protocol: string | null;
  readonly hostname: string;
  readonly port: string | null;
}

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** What is wrong with one entry, as the end of a sentence; null if it can be used. */
export function allowListFault(entry: string): string | null {
  if (rangeOf(entry) || hostOf(entry)) return null;
  return `${JSON.stringify(entry)} is neither a host (ollama.internal, localhost:11434), an origin (http://10.0.0.5:8080), an address nor a range (10.0.0.0/8, fd00::/8).`;
}

/** Takes `host`, `host:port`, `http://host:port`, `10.0.0.5`, `10.0.0.0/8`, `[fd00::1]:8080`. Throws for anything else. */
export function parseAllowList(entries: readonly string[]): AllowList {
  const ranges: Range[] = [];
  const hosts: ListedHost[] = [];
  for (const entry of entries) {
    const range = rangeOf(entry);
    const host = range ? null : hostOf(entry);
    if (range) ranges.push(range);
    else if (host) hosts.push(host);
    else throw new Error(`The list of allowed places: ${allowListFault(entry)}`);
  }
  return {
    names: (url) => hosts.some((host) => isHost(host, url)),
    covers: (address) => ranges.some((range) => contains(range, ipaddr.process(address))),
  };
}

/** A host as names are compared: without the dot that makes it absolute. */
export function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

function isHost(listed: ListedHost, url: URL): boolean {
  return (
    listed.hostname === bareHost(url) &&
    (listed.port === null || listed.port === portOf(url)) &&
    (listed.protocol === null || listed.protocol === url.protocol)
  );
}

function rangeOf(entry: string): Range | null {
  const address = entry.replace(/^\[(.*)\]$/, '$1');
  if (ipaddr.IPv4.isValidFourPartDecimal(address) || ipaddr.IPv6.isValid(address)) {
    const parsed = ipaddr.process(address);
    return [parsed, parsed.kind() === 'ipv4' ? 32 : 128];
  }
  return ipaddr.isValidCIDR(entry) ? ipaddr.parseCIDR(entry) : null;
}

function contains([base, bits]: Range, address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (base instanceof ipaddr.IPv4) return address instanceof ipaddr.IPv4 && address.match(base, bits);
  return address instanceof ipaddr.IPv6 && address.match(base, bits);
}

function hostOf(entry: string): ListedHost | null {
  const [, scheme = null, authority = ''] = /^(?:(https?):\/\/)?([^/?#@\\*\s]+)\/?$/i.exec(entry) ?? [];
  // Both schemes have a port that a URL forgets; one without any keeps what is written.
  const place = `x://${authority}`;
  if (authority === '' || !URL.canParse(place) || !URL.canParse(`http://${authority}`)) return null;
  const port = new URL(place).port || null;
  const protocol = scheme === null ? null : `${scheme.toLowerCase()}:`;
  const url = new URL(`http://${authority}`);
  return { protocol, hostname: bareHost(url), port: port ?? (protocol ? defaultPort(protocol) : null) };
}

function portOf(url: URL): string {
  return url.port || defaultPort(url.protocol);
}

function defaultPort(protocol: string): string {
  return protocol === 'https:' ? '443' : '80';
}
