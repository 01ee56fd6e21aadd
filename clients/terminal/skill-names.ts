/** Skills by their name, or by their id where several have one name. */
import type { ServiceClient } from '@service/client';
import type { Skill, SkillScope } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure } from './failures.ts';
import { printable } from './output.ts';

const wholeId = /^skl_[0-9a-hjkmnp-tv-z]{26}$/;

/** All that the person's runs may have, by name. */
export function skillsOf(client: ServiceClient): AsyncGenerator<Skill> {
  return paginate((page) => client.GET('/api/v1/skills', { params: { query: { ...page, limit: 100 } } }));
}

/** Of several with one name the one that counts. */
export async function findSkill(client: ServiceClient, given: string): Promise<Skill> {
  const found = await skillsCalled(client, given);
  const one = found.find(({ shadowed_by }) => shadowed_by === null) ?? found[0];
  if (one) return one;
  throw new CommandFailure(
    `There is no skill ${JSON.stringify(given)}. service skills list shows those that are there.`,
  );
}

/** The one of this name that a person or an admin has added, in this scope if one is named. */
export async function findAddedSkill(
  client: ServiceClient,
  given: string,
  scope: SkillScope | undefined,
): Promise<Skill> {
  const named = await skillsCalled(client, given);
  const added = named.filter(
    (one) => one.created_by !== null && (scope === undefined || one.scope === scope),
  );
  const [only] = added;
  if (only && added.length === 1) return only;
  throw new CommandFailure(
    only ? ambiguous(given, added) : notAdded(given, await findSkill(client, given), scope),
  );
}

async function skillsCalled(client: ServiceClient, given: string): Promise<readonly Skill[]> {
  if (wholeId.test(given)) {
    const params = { path: { skill_id: given } };
    return [(await client.GET('/api/v1/skills/{skill_id}', { params })).data];
  }
  return (await Array.fromAsync(skillsOf(client))).filter(({ name }) => name === given);
}

function ambiguous(given: string, found: readonly Skill[]): string {
  const lines = found.map(
    ({ id, scope, description }) => `  ${id}  ${scope}  ${printable(description ?? '')}`,
  );
  return [
    `${found.length} skills are called ${given}. Say whose with --scope, or name the id:`,
    ...lines,
  ].join('\n');
}

function notAdded(given: string, { source }: Skill, scope: SkillScope | undefined): string {
  if (scope !== undefined) return `Nobody has added a skill ${given} with the scope ${scope}.`;
  if (source === 'builtin') return `${given} comes with the service: service skills disable hides it.`;
  if (source === 'repository')
    return `${given} comes from a repository: change it there, or hide it with service skills disable.`;
  return `${given} lies in a folder: change it there, or hide it with service skills disable.`;
}
