/** Repositories of skills by their name, or by their id or enough of its end. */
import type { ServiceClient } from '@service/client';
import type { SkillRepository } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure } from './failures.ts';
import { printable } from './output.ts';

/** The oldest first. */
export function repositoriesOf(client: ServiceClient): AsyncGenerator<SkillRepository> {
  return paginate((page) =>
    client.GET('/api/v1/skills/repositories', { params: { query: { ...page, limit: 100 } } }),
  );
}

/** The one repository that is meant. */
export async function findRepository(client: ServiceClient, given: string): Promise<SkillRepository> {
  const all = await Array.fromAsync(repositoriesOf(client));
  const named = all.filter(({ name }) => name === given);
  const end = given.trim().toLowerCase();
  const found = named.length > 0 ? named : all.filter(({ id }) => end !== '' && id.endsWith(end));
  const [only] = found;
  if (only && found.length === 1) return only;
  throw new CommandFailure(only ? ambiguous(given, found) : missing(given));
}

function missing(given: string): string {
  return `There is no repository of skills ${JSON.stringify(given)}. service skills repositories list shows those that are there.`;
}

function ambiguous(given: string, found: readonly SkillRepository[]): string {
  const lines = found
    .slice(0, 10)
    .map(({ id, name, url }) => `  ${id}  ${printable(name)}  ${printable(url)}`);
  return [`${found.length} repositories fit ${JSON.stringify(given)}. Name one by its id:`, ...lines].join(
    '\n',
  );
}
