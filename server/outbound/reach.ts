/** How far a request may reach, by who gave its URL; and whether one place lies within that. */
import { isIP } from 'node:net';
import { type Place, placeOf } from './addresses.ts';
import { type AllowList, bareHost } from './allow-list.ts';
import { OutboundError } from './outbound-error.ts';

/**
 * Who gave a URL. `operator`: the settings of the installation, or of the program that embeds the runtime. `account`: a
 * person with an account here. `stranger`: a model, a page, the answer of a server.
 */
export type UrlGiver = 'operator' | 'account' | 'stranger';

/**
 * `own`: also private places and this machine, for what its owner named. `person`: the same for one person's machine,
 * where a name on the internet may not lead to the machine itself. `public`: public places, and what the operator lists.
 */
export type Reach = 'own' | 'person' | 'public';

export const reaches: readonly Reach[] = ['own', 'person', 'public'];

export interface ReachQuestion {
  readonly giver: UrlGiver;
  readonly url: URL;
  /** The URL that was asked for; another one than `url` behind a redirect. */
  readonly first: URL;
  readonly shared: boolean;
  readonly allow: AllowList;
}

/** A redirect to another origin is the word of the server that sent it, whoever gave the first URL. */
export function reachOf({ giver, url, first, shared, allow }: ReachQuestion): Reach {
  if (allow.names(url)) return 'own';
  if (url.origin !== first.origin) return 'public';
  if (giver === 'operator') return 'own';
  if (shared) return 'public';
  return giver === 'account' ? 'own' : 'person';
}

/** Refuses what is no address of a web server, before anything is looked up. */
export function assertUrl(url: URL): void {
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new OutboundError('url_refused', 'Only http and https URLs can be fetched.');
  if (url.username || url.password)
    throw new OutboundError('url_refused', 'A URL with a user name or a password in it is not fetched.');
}

/** Refuses a host that is itself an address out of reach, or a name of this machine. */
export function assertHost(url: URL, reach: Reach, allow: AllowList): void {
  const host = bareHost(url);
  if (isIP(host)) {
    if (!isWithin(reach, placeOf(host), allow.covers(host), true)) throw refusedAddress(host);
  } else if (reach === 'public' && isLocalName(host) && !allow.covers('127.0.0.1'))
    throw refusedAddress(host);
}

/** Refuses a name when any of its addresses is out of reach: which of them is taken is up to the network. */
export function assertAddresses(
  hostname: string,
  addresses: readonly { readonly address: string }[],
  reach: Reach,
  allow: AllowList,
): void {
  const local = isLocalName(hostname);
  const within = ({ address }: { readonly address: string }) =>
    isWithin(reach, placeOf(address), allow.covers(address), local);
  if (!addresses.every(within)) throw refusedName();
}

/** Credentials of a cloud are for no caller, and no list of places opens the way to them. */
function isWithin(reach: Reach, place: Place, listed: boolean, saysSo: boolean): boolean {
  if (place === 'metadata') return false;
  if (listed || place === 'public') return true;
  if (place === 'special' || reach === 'public') return false;
  return place === 'private' || reach === 'own' || saysSo;
}

function isLocalName(hostname: string): boolean {
  return /(^|\.)localhost\.?$/i.test(hostname);
}

function refusedAddress(host: string): OutboundError {
  return new OutboundError(
    'address_refused',
    `${host} is not a public address, and nothing else is reached from here; an operator can list it in SERVICE_OUTBOUND_ALLOW.`,
  );
}

/** Said of names that do not exist, too, where many share a server: else it would tell what its network knows. */
export function refusedName(cause?: unknown): OutboundError {
  return new OutboundError(
    'address_refused',
    'There is no such name, or it leads to an address that is not reached from here; an operator can list it in SERVICE_OUTBOUND_ALLOW.',
    { cause },
  );
}
