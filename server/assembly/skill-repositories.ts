/** Fetches the git repositories of skills that the operator has named. */
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import type { Sealing } from '../identity/identity.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { hasDied, nameOwner } from '../process-name.ts';
import { openSkillRepositories, repositoryLimits, type SkillRepositoryBook } from '../skills/skills.ts';
import type { Store } from '../store/store.ts';
import type { ServicesInput } from './input.ts';
import { leaseOf } from './lease.ts';

interface Parts {
  readonly store: Store;
  readonly outbound: Outbound;
  readonly sealing: Sealing;
  readonly clock: Clock;
}

/** A command that has the server inside fetches what it was asked for, and nothing that others wait for. */
export function beginSkillRepositories(
  { project, settings, draining, log }: ServicesInput,
  { store, outbound, sealing, clock }: Parts,
): SkillRepositoryBook {
  const book = openSkillRepositories({
    ...{ store, sealing, clock, log, draining, hasDied },
    refusalOf: (url) => outbound.refusalOf(url, 'account'),
    fetch: outbound.fetchFor('account', repositoryLimits),
    directory: join(settings.dataDirectory, 'skill-repositories'),
    lease: leaseOf(settings),
    owner: nameOwner(),
  });
  if (!project) book.start();
  return book;
}
