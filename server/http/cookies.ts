/** Reads the cookies of a request that its operation declares; the contract has few, and only for browsers on their way. */
import type { IncomingMessage } from 'node:http';
import type { Route } from '../contract/routes.ts';
import { cookieNamesOf } from './contract-document.ts';

/** By name, as they came (RFC 6265, 5.4). One that comes twice is left out: nobody can say which is ours. */
export function cookiesOf(
  { headers }: Pick<IncomingMessage, 'headers'>,
  route: Pick<Route, 'path' | 'method'>,
): Readonly<Record<string, string>> {
  const { cookie } = headers;
  if (cookie === undefined) return {};
  const pairs = cookie.split(';').map((pair) => {
    const at = Math.max(pair.indexOf('='), 0);
    return { name: pair.slice(0, at).trim(), value: pair.slice(at + 1).trim() };
  });
  return Object.fromEntries(
    cookieNamesOf(route).flatMap((name) => {
      const [only, ...others] = pairs.filter((pair) => pair.name === name);
      return only && others.length === 0 ? [[name, only.value]] : [];
    }),
  );
}
