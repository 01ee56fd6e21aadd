/** `service skills repositories`: git repositories of skills, of which nothing is used before somebody has read what it is. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { SkillRepository, SkillRepositoryProposal } from '@service/client/api';
import { askYesNo, canAsk } from '../ask.ts';
import { withService } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { keyed, unless } from '../lost-answers.ts';
import { asTyped, nextCommand } from '../next-command.ts';
import {
  type Column,
  counted,
  isTerminal,
  notice,
  print,
  printable,
  printJson,
  printTable,
} from '../output.ts';
import { findRepository, repositoriesOf } from '../repository-names.ts';
import { secretsOf } from '../secrets.ts';
import { describeProposal } from '../skill-proposal.ts';

interface Where {
  readonly server?: string | undefined;
}

interface Asked extends Where {
  readonly json?: boolean;
}

interface Wishes extends Where {
  readonly name?: string;
  readonly ref?: string;
  readonly folder?: string;
  readonly commit?: string;
  readonly username?: string;
  /** Read from the terminal or standard input. */
  readonly token?: boolean;
}

/** The oldest first. */
export async function listRepositories({ server, json = false }: Asked): Promise<void> {
  const all = await withService(server, (client) => Array.fromAsync(repositoriesOf(client)));
  if (all.length === 0 && !json)
    return notice('There is no repository of skills. service skills repositories add URL adds one.');
  printTable(all, isTerminal() ? columns : [...columns, { title: 'id', value: ({ id }) => id }], { json });
}

/** It is fetched and shown at once; nothing of it is used. */
export async function addRepository(url: string, wishes: Wishes): Promise<void> {
  const { server, name, ref, folder, commit, username } = wishes;
  const token = wishes.token ? await secretsOf()('Token: ', 'token') : undefined;
  await withService(server, async (client) => {
    const body = {
      url,
      ...(name !== undefined && { name }),
      ...(ref !== undefined && { ref }),
      ...(folder !== undefined && { subfolder: folder }),
      ...(commit !== undefined && { pinned_commit: commit }),
      ...(username !== undefined && { username }),
      ...(token !== undefined && { token: token.trim() }),
    };
    const { data } = await client.POST('/api/v1/skills/repositories', {
      body,
      params: { header: keyed() },
    });
    print(printable(`Added ${data.name} (${data.id})`));
    await fetchAndShow(client, data, { server });
  });
}

export async function syncRepository(given: string, { server, json = false }: Asked): Promise<void> {
  await withService(server, async (client) =>
    fetchAndShow(client, await findRepository(client, given), { server, json }),
  );
}

/** What the last sync has found. */
export async function showRepository(given: string, { server, json = false }: Asked): Promise<void> {
  await withService(server, async (client) => {
    const repository = await findRepository(client, given);
    if (json) return printJson({ ...repository, proposal: await proposalOf(client, repository) });
    await show(client, repository, server);
  });
}

/** After a question: what is read there is what is used, and not what the repository has by then. */
export async function applyRepository(
  given: string,
  { server, yes, commit }: Where & { readonly yes?: boolean; readonly commit?: string },
): Promise<void> {
  if (!yes && commit === undefined && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: name the --commit that you have read, or --yes uses what is proposed.',
      exitCodes.usage,
    );
  await withService(server, async (client) => {
    const repository = await findRepository(client, given);
    const proposal = await proposalOf(client, repository);
    if (proposal === null)
      throw new CommandFailure(
        repository.state === 'syncing'
          ? `${printable(repository.name)} is being fetched; what it proposes is known once that is done.`
          : `${printable(repository.name)} proposes nothing: service skills repositories sync looks whether it has changed.`,
      );
    requireRead(proposal, commit);
    if (!yes && commit === undefined) {
      print(describeProposal(proposal));
      const sure = await askYesNo(`Use these skills of ${printable(repository.name)} for all runs?`);
      if (!sure) return notice('Nothing was changed.');
    }
    const { data } = await client.POST('/api/v1/skills/repositories/{repository_id}/apply', {
      params: { path: { repository_id: repository.id } },
      body: { commit: proposal.commit },
    });
    const amount = counted(data.skills, 'skill');
    const used = data.skills === 1 ? 'is used' : 'are used';
    print(printable(`${amount} of ${data.name} at ${short(proposal.commit)} ${used}`));
  });
}

/** After a question. */
export async function removeRepository(
  given: string,
  { server, yes }: Where & { readonly yes?: boolean },
): Promise<void> {
  if (!yes && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: --yes removes without asking.',
      exitCodes.usage,
    );
  await withService(server, async (client) => {
    const { id: repository_id, name, skills } = await findRepository(client, given);
    const sure =
      yes ||
      (await askYesNo(`Remove ${printable(name)} with its ${counted(skills, 'skill').toLowerCase()}?`));
    if (!sure) return notice('Nothing was removed.');
    const params = { path: { repository_id } };
    const { response } = await client.GET('/api/v1/skills/repositories/{repository_id}', { params });
    const header = { 'If-Match': response.headers.get('ETag') ?? '' };
    await client
      .DELETE('/api/v1/skills/repositories/{repository_id}', { params: { ...params, header } })
      .catch(unless(404));
    print(printable(`Removed ${name} (${repository_id})`));
  });
}

const columns: readonly Column<SkillRepository>[] = [
  { title: 'name', value: ({ name }) => name, style: 'bold' },
  {
    title: 'state',
    value: ({ state }) => state,
    style: ({ state }) => (state === 'failed' ? 'red' : state === 'proposed' ? 'yellow' : null),
  },
  { title: 'used', value: ({ applied_commit }) => (applied_commit === null ? '' : short(applied_commit)) },
  { title: 'skills', value: ({ skills }) => String(skills) },
  { title: 'from', value: ({ url, ref, subfolder }) => [url, ref, subfolder].filter(Boolean).join(' ') },
];

const lookMs = 300;
const longestWaitMs = 600_000;

async function fetchAndShow(
  client: ServiceClient,
  { id }: SkillRepository,
  { server, json = false }: Asked,
): Promise<void> {
  const params = { path: { repository_id: id } };
  let { data } = await client.POST('/api/v1/skills/repositories/{repository_id}/sync', { params });
  for (const end = performance.now() + longestWaitMs; data.state === 'syncing' && performance.now() < end; ) {
    await sleep(lookMs);
    data = (await client.GET('/api/v1/skills/repositories/{repository_id}', { params })).data;
  }
  if (json) printJson({ ...data, proposal: await proposalOf(client, data) });
  else if (data.state !== 'failed') return await show(client, data, server);
  if (data.state === 'failed')
    throw new CommandFailure(`${printable(data.name)} was not fetched: ${data.error ?? 'nobody knows why'}`);
}

async function show(
  client: ServiceClient,
  repository: SkillRepository,
  server: string | undefined,
): Promise<void> {
  const { name, state, error, applied_commit, url } = repository;
  const proposal = await proposalOf(client, repository);
  const used = applied_commit === null ? 'nothing of it is used' : `${short(applied_commit)} is used`;
  if (state === 'failed') notice(`${name}: the last sync failed: ${error ?? ''}`);
  if (state === 'syncing') return print(printable(`${name} (${url}): it is being fetched, ${used}`));
  if (proposal === null) return print(printable(`${name} (${url}): nothing new, ${used}`));
  print(printable(`${name} at ${short(proposal.commit)}; ${used}`));
  print(describeProposal(proposal));
  if (proposal.skills.some(({ change }) => change !== 'unchanged' && change !== 'invalid'))
    notice(`Nothing changes before: ${nextCommand('skills repositories apply', server, asTyped(name))}`);
}

async function proposalOf(
  client: ServiceClient,
  { id, state }: SkillRepository,
): Promise<SkillRepositoryProposal | null> {
  if (state !== 'proposed') return null;
  const params = { path: { repository_id: id } };
  return (await client.GET('/api/v1/skills/repositories/{repository_id}/proposal', { params })).data;
}

/** Somebody else may have had it fetched meanwhile. */
function requireRead({ commit }: SkillRepositoryProposal, read: string | undefined): void {
  if (read === undefined || (read.length >= 7 && commit.startsWith(read.toLowerCase()))) return;
  throw new CommandFailure(`It proposes ${commit} by now, and not ${JSON.stringify(read)}: read that first.`);
}

function short(commit: string): string {
  return commit.slice(0, 7);
}
