/** How names become addresses, such that nobody keeps others from it: the system has few threads for that, and never gives up early. */
import { promises as dns, type LookupAddress } from 'node:dns';
import { OutboundError } from './outbound-error.ts';
import type { Reach } from './reach.ts';

/** Every address of a name. */
export type Resolver = (hostname: string) => Promise<readonly LookupAddress[]>;

export interface Resolvers {
  /** How names become addresses; the system's way if absent. */
  readonly resolver?: Resolver;
  /** How they do where the system is busy: by asking DNS servers, if absent, or as `resolver` has it. */
  readonly directResolver?: Resolver;
}

/** Throws OutboundError where it takes too long. */
export type LookUp = (hostname: string, reach: Reach) => Promise<readonly LookupAddress[]>;

const mostMs = 5000;
/** In the middle of a working system a look-up takes some milliseconds. */
const untilDirectMs = 500;

/**
 * The system looks two names up at a time, and a name whose servers do not answer keeps one of the two for half a minute.
 * So one at a time is there for all the names that accounts and strangers gave. Who waits long for that asks the DNS
 * servers past the system, which needs no thread, and knows nothing of `/etc/hosts`. What the operator names waits for none
 * of them.
 */
export function createLookUp({ resolver, directResolver }: Resolvers): LookUp {
  const bySystem = together(resolver ?? systemResolver);
  const byServers = directResolver ?? resolver ?? askServers;
  const turns = new Turns();
  const inTurn = together(async (hostname) => {
    if (!(await turns.take())) return byServers(hostname);
    return bySystem(hostname).finally(() => turns.pass());
  });
  return (hostname, reach) => (reach === 'own' ? bySystem(hostname) : inTime(inTurn(hostname)));
}

/** One look-up serves all who ask for a name meanwhile. */
function together(resolver: Resolver): Resolver {
  const asked = new Map<string, ReturnType<Resolver>>();
  return (hostname) => {
    const known = asked.get(hostname);
    if (known) return known;
    const asking = resolver(hostname);
    asked.set(hostname, asking);
    const forget = () => asked.delete(hostname);
    asking.then(forget, forget);
    return asking;
  };
}

/** One after the other, in the order in which they came. */
class Turns {
  #taken = false;
  readonly #waiting = new Set<() => void>();

  /** False where it took too long until it was one's turn. */
  take(): Promise<boolean> {
    if (!this.#taken) {
      this.#taken = true;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(go);
        resolve(false);
      }, untilDirectMs);
      this.#waiting.add(go);
    });
  }

  pass(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#taken = false;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

/** The look-up itself goes on: nothing can end it. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(tooSlow()), mostMs);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function tooSlow(): OutboundError {
  return new OutboundError(
    'answer_too_slow',
    `The name of the server was not looked up within ${mostMs / 1000} seconds.`,
  );
}

async function systemResolver(hostname: string): Promise<readonly LookupAddress[]> {
  return dns.lookup(hostname, { all: true });
}

async function askServers(hostname: string): Promise<readonly LookupAddress[]> {
  const servers = new dns.Resolver({ timeout: 1500, tries: 2 });
  const [four, six] = await Promise.allSettled([servers.resolve4(hostname), servers.resolve6(hostname)]);
  const found = [four, six].flatMap((answer, index) =>
    answer.status === 'fulfilled'
      ? answer.value.map((address) => ({ address, family: index === 0 ? 4 : 6 }))
      : [],
  );
  if (found.length === 0 && four.status === 'rejected') throw four.reason;
  return found;
}
