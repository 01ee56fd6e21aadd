/** The connections of the guard: a name is looked up once, every address is checked, and one of those is connected to. */
import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher, fetch } from 'undici';
import type { AllowList } from './allow-list.ts';
import { type CallAnswer, type CallInit, callThrough } from './call.ts';
import { type OutboundLimits, receivingAtMost } from './limits.ts';
import { createLookUp, type LookUp, type Resolvers } from './look-ups.ts';
import { OutboundError } from './outbound-error.ts';
import { assertAddresses, assertHost, type Reach, reaches, refusedName } from './reach.ts';

export interface Dispatchers {
  /** One request and its answer: no redirect is followed. */
  fetch(url: URL, init: RequestInit, reach: Reach, limits: OutboundLimits): Promise<Response>;
  /** The same by hand. */
  call(url: URL, init: CallInit, reach: Reach, maxBytes: number): Promise<CallAnswer>;
  close(): Promise<void>;
}

const connectMs = 10_000;
/** A server may offer to keep connections for minutes: after hundreds of answers at once they would all stay open. */
const longestIdleMs = 10_000;

/**
 * Connections are kept for the next request, so that each reach has its own: what was connected to for an operator must
 * not serve a stranger. Proxies named by the environment are not used: they look names up themselves.
 */
export function createDispatchers(allow: AllowList, resolvers: Resolvers): Dispatchers {
  const lookUp = createLookUp(resolvers);
  const agents = new Map(reaches.map((reach) => [reach, agentFor(reach, allow, lookUp)]));
  const agentOf = (reach: Reach): Agent => {
    const agent = agents.get(reach);
    if (!agent) throw new Error(`There is no agent for the reach ${reach}`);
    return agent;
  };
  const capped = new Map<string, Dispatcher>();
  // Whoever calls the same place again and again has its URL judged once.
  const judged = new WeakMap<URL, Reach>();
  const dispatcherFor = (
    reach: Reach,
    { maxBytes = Number.POSITIVE_INFINITY, asSent = false }: OutboundLimits,
  ): Dispatcher => {
    const key = `${reach} ${maxBytes} ${asSent}`;
    const known = capped.get(key);
    if (known) return known;
    const made = agentOf(reach).compose(receivingAtMost(maxBytes, asSent));
    capped.set(key, made);
    return made;
  };
  return {
    async fetch(url, init, reach, limits) {
      assertHost(url, reach, allow);
      const dispatcher = dispatcherFor(reach, limits);
      // `as`: the client's own types and the platform's describe the same standard in different words.
      const own = { ...init, dispatcher, redirect: 'manual' } as unknown as Parameters<typeof fetch>[1];
      return (await fetch(url.href, own)) as unknown as Response;
    },
    async call(url, init, reach, maxBytes) {
      if (judged.get(url) !== reach) assertHost(url, reach, allow);
      judged.set(url, reach);
      return callThrough(agentOf(reach), url, init, maxBytes);
    },
    async close() {
      await Promise.all([...agents.values()].map((agent) => agent.destroy()));
    },
  };
}

function agentFor(reach: Reach, allow: AllowList, lookUp: LookUp): Agent {
  const lookup = guardedLookup(reach, allow, lookUp);
  const connect = buildConnector({ lookup, allowH2: false, timeout: connectMs });
  // How long an answer may take is the caller's to say; models think for minutes.
  return new Agent({
    ...{ connect, allowH2: false, headersTimeout: 0, bodyTimeout: 0 },
    keepAliveMaxTimeout: longestIdleMs,
  });
}

/** The socket connects to what this answers, and asks nobody again. */
function guardedLookup(reach: Reach, allow: AllowList, lookUp: LookUp): LookupFunction {
  return (hostname, options, callback) => {
    resolveChecked(hostname, reach, allow, lookUp).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) callback(null, [...addresses]);
        else callback(null, first?.address ?? '', first?.family);
      },
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), ''),
    );
  };
}

async function resolveChecked(
  hostname: string,
  reach: Reach,
  allow: AllowList,
  lookUp: LookUp,
): Promise<readonly LookupAddress[]> {
  const addresses = await lookUp(hostname, reach).catch((error: unknown) => {
    throw reach === 'public' && !(error instanceof OutboundError) ? refusedName(error) : error;
  });
  if (addresses.length === 0) throw refusedName();
  assertAddresses(hostname, addresses, reach, allow);
  return addresses;
}
