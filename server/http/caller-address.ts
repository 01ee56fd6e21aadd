/** Where a request comes from: the connection's own address, unless a proxy that the operator trusts says otherwise. */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import proxyAddr from 'proxy-addr';

/** Reads the address of a caller; null where the connection is gone. */
export type AddressOf = (request: IncomingMessage) => string | null;

/**
 * `X-Forwarded-For` counts from its end, as far as it was written by trusted proxies: whatever stands before was
 * written by the caller. No other header says anything.
 */
export function addressReader(trustedProxies: readonly string[]): AddressOf {
  const trust = proxyAddr.compile([...trustedProxies]);
  return (request) => {
    if (request.socket.remoteAddress === undefined) return null;
    let address: string | null = null;
    for (const hop of proxyAddr.all(request, trust)) {
      const plain = plainAddress(hop);
      // What is no address ends the chain: the proxy that let it through is the last that is known.
      if (plain === null) break;
      address = plain;
    }
    return address;
  };
}

/** One spelling for each: IPv4 as such, no zone; some proxies write the port behind. */
export function plainAddress(text: string): string | null {
  const withoutPort = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>\d+(?:\.\d+){3}))(?::\d+)?$/.exec(text)?.groups;
  const address = (withoutPort?.v6 ?? withoutPort?.v4 ?? text)
    .replace(/^::ffff:(?=\d+\.)/i, '')
    .replace(/%.*$/, '');
  return isIP(address) === 0 ? null : address.toLowerCase();
}
