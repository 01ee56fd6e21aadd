/** Corpora by their name, their id, or enough of its end. */
import type { ServiceClient } from '@service/client';
import type { Corpus } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure } from '../failures.ts';
import { printable } from '../output.ts';

/** The latest first. */
export function corporaOf(client: ServiceClient, signal: AbortSignal | null = null): AsyncGenerator<Corpus> {
  return paginate((page) =>
    client.GET('/api/v1/corpora', { params: { query: { ...page, limit: 100 } }, signal }),
  );
}

/** The one corpus that is meant; a name counts before the end of an id. */
export async function findCorpus(
  client: ServiceClient,
  given: string,
  signal: AbortSignal | null = null,
): Promise<Corpus> {
  const corpora = await Array.fromAsync(corporaOf(client, signal));
  const named = corpora.filter(({ name }) => name === given);
  const end = given.trim().toLowerCase();
  const found = named.length > 0 ? named : corpora.filter(({ id }) => end !== '' && id.endsWith(end));
  const [only] = found;
  if (only && found.length === 1) return only;
  throw found.length === 0 ? noSuchCorpus(given) : severalAre(given, found);
}

/** Says how to make one. */
export function noSuchCorpus(given: string): CommandFailure {
  return new CommandFailure(
    `There is no corpus called ${JSON.stringify(given)} here. service corpora list shows those that are there; service corpora add <folder> makes one.`,
  );
}

/** Says by what they are told apart. */
export function severalAre(given: string, found: readonly Corpus[]): CommandFailure {
  const lines = found.slice(0, 10).map(({ id, name }) => `  ${id}  ${printable(name)}`);
  return new CommandFailure(
    [`${found.length} corpora are meant by ${JSON.stringify(given)}. Name one by its id:`, ...lines].join(
      '\n',
    ),
  );
}
