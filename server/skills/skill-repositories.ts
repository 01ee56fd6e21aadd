/** Git repositories of skills at work: what the operator writes, and the fetching that is done for it in the background. */
import { readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type {
  SkillRepositoryCreate,
  SkillRepositoryProposal,
  SkillRepositoryUpdate,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Log } from '../log.ts';
import type { OutboundError, OutboundFetch, OutboundLimits } from '../outbound/outbound.ts';
import { Problem } from '../problem.ts';
import type {
  ClaimedSync,
  FoundRepository,
  Reach,
  SkillRepositoryContent,
  Store,
  TaggedSkillRepository,
} from '../store/store.ts';
import { findGit, ownerOfScratch } from './git-process.ts';
import { mostPackBytes, withCommit } from './git-repository.ts';
import { shownProposal } from './proposed-skills.ts';
import { RepositoryFault } from './repository-fault.ts';
import { skillsIn } from './repository-skills.ts';

export interface SkillRepositoryBook {
  /** Throws `invalid_request` or `too_many_settings`. */
  add(operator: Reach, body: SkillRepositoryCreate): Promise<TaggedSkillRepository>;
  /** Throws `not_found`, `precondition_failed` or `invalid_request`. */
  update(
    operator: Reach,
    id: string,
    body: SkillRepositoryUpdate,
    ifMatch: string | undefined,
  ): Promise<TaggedSkillRepository>;
  /** Throws `not_found` or `git_missing`. */
  sync(operator: Reach, id: string): Promise<TaggedSkillRepository>;
  /** Throws `not_found`. */
  proposal(id: string): Promise<SkillRepositoryProposal>;
  /** Fetches what is asked for, and what dead processes have left, until `stop`. */
  start(): void;
  /** Gives what is at work back to other processes, and resolves when nothing is. */
  stop(): Promise<void>;
}

export interface SkillRepositoryParts {
  readonly store: Pick<Store, 'skillRepositories'>;
  readonly sealing: {
    seal(secret: Buffer, rowId: string): string;
    open(sealed: string, rowId: string): Buffer;
  };
  readonly refusalOf: (url: string) => OutboundError | null;
  readonly fetch: OutboundFetch;
  /** For scratch folders. */
  readonly directory: string;
  readonly lease: { readonly leaseMs: number; readonly renewMs: number };
  /** Names this process, and tells whether another one is known to be dead. */
  readonly owner: string;
  readonly hasDied: (owner: string) => boolean;
  /** Whether nothing is to be begun any more. */
  readonly draining: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** How much of time and bytes a repository may take. */
export const repositoryLimits: OutboundLimits = {
  maxBytes: mostPackBytes,
  headersMs: 30_000,
  totalMs: 120_000,
};
const syncMs = 180_000;
/** How often a process looks for what others were asked for or have left. */
const lookEveryMs = 5_000;
/** Where nobody can tell whether the process of a scratch folder is dead. */
const leftoverMs = 3_600_000;

export function openSkillRepositories(parts: SkillRepositoryParts): SkillRepositoryBook {
  const { store, clock, log, lease } = parts;
  const records = store.skillRepositories;
  const ending = new AbortController();
  let looking: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const until = () => clock.now().getTime() + lease.leaseMs;
  const work = async (): Promise<void> => {
    while (!ending.signal.aborted && !parts.draining()) {
      const claimed = await records.claimSync({ ...parts, until: until() });
      if (!claimed) return;
      await fetchOne(parts, claimed, until, ending.signal);
    }
  };
  /** One after the other: a process has better things to do than to fetch many at once. */
  const look = (): void => {
    looking = looking
      .then(work)
      .catch((error: unknown) =>
        log.error({ err: error }, 'repositories of skills could not be fetched; a moment later again'),
      );
  };
  return {
    async add(operator, body) {
      const id = newId('skillRepository');
      return records.add(operator, id, contentOf(parts, id, null, { name: nameIn(body.url), ...body }));
    },
    update: (operator, id, body, ifMatch) =>
      records.update(operator, id, (before) => contentOf(parts, id, before, body), ifMatch),
    async sync(operator, id) {
      if (findGit() === null)
        throw new Problem(
          'git_missing',
          'There is no program git on the PATH of the server: install it there, and sync again.',
        );
      const begun = await records.beginSync(operator, id);
      look();
      return begun;
    },
    async proposal(id) {
      const proposal = await records.proposal(id);
      if (!proposal) throw new Problem('not_found', 'The repository proposes nothing: sync it first.');
      return shownProposal(id, proposal);
    },
    start() {
      void sweep(parts);
      look();
      timer = setInterval(look, lookEveryMs).unref();
    },
    async stop() {
      clearInterval(timer);
      ending.abort(new Error('The server is stopping.'));
      await looking;
    },
  };
}

type Written = Partial<SkillRepositoryUpdate>;

/** Throws `invalid_request`. */
function contentOf(
  { sealing, refusalOf }: SkillRepositoryParts,
  id: string,
  before: SkillRepositoryContent | null,
  { token, ...written }: Written,
): SkillRepositoryContent {
  const none = { name: '', url: '', ref: null, subfolder: null, pinned_commit: null, username: null };
  const { name, url, ref, subfolder, pinned_commit, username } = {
    ...none,
    ...before,
    ...definedOf(written),
  };
  if (written.url !== undefined) refuseUrl(url, refusalOf);
  const kept = before?.sealed_token ?? null;
  if (kept !== null && token === undefined && new URL(url).origin !== new URL(before?.url ?? url).origin)
    throw wrong('/token', 'is kept for another server: give the token of this one, or null');
  const sealed = token ? sealing.seal(Buffer.from(token), rowOf(id)) : null;
  const sealed_token = token === undefined ? kept : sealed;
  return { name, url, ref, subfolder, pinned_commit, username, sealed_token };
}

function rowOf(id: string): string {
  return `skill_repositories/${id}`;
}

function definedOf<T extends object>(written: T): T {
  // `as`: what is left out was undefined, which a member that may be absent does not need to be.
  return Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined)) as T;
}

const otherWays = 'git is asked over https or http alone: give the https URL of the repository';

function refuseUrl(url: string, refusalOf: SkillRepositoryParts['refusalOf']): void {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (!parsed || !['https:', 'http:'].includes(parsed.protocol)) throw wrong('/url', otherWays);
  if (parsed.username || parsed.password)
    throw wrong('/url', 'holds a user name or a password: send them as username and token');
  if (parsed.search || parsed.hash)
    throw wrong('/url', 'has a query or a fragment, which no repository needs');
  const refused = refusalOf(url);
  if (refused) throw wrong('/url', refused.message, refused);
}

function wrong(pointer: string, message: string, cause?: Error): Problem {
  const errors = [{ in: 'body' as const, pointer, message, code: 'skill_repository' }];
  return new Problem('invalid_request', `${pointer.slice(1)}: ${message}`, { errors, cause });
}

/** `https://git.example.com/house/skills.git` is `skills`. */
function nameIn(url: string): string {
  const path = URL.canParse(url) ? new URL(url).pathname : '';
  return basename(path, '.git').slice(0, 100) || 'skills';
}

async function fetchOne(
  parts: SkillRepositoryParts,
  claimed: ClaimedSync,
  until: () => number,
  ending: AbortSignal,
): Promise<void> {
  const { store, log, lease } = parts;
  const records = store.skillRepositories;
  const lost = new AbortController();
  const signal = AbortSignal.any([ending, lost.signal, AbortSignal.timeout(syncMs)]);
  const over = new AbortController();
  const renewing = keepClaim(
    async () => {
      if (!(await records.renewSync(claimed, until()))) lost.abort(new Error('Another process fetches it.'));
    },
    { everyMs: lease.renewMs, signal: over.signal, log },
  );
  try {
    const found = await foundIn(parts, claimed, signal);
    over.abort();
    await renewing;
    if (ending.aborted) await records.giveSyncBack(claimed);
    else if (!lost.signal.aborted) await records.endSync(claimed, found);
  } finally {
    over.abort();
  }
}

async function keepClaim(
  renew: () => Promise<void>,
  { everyMs, signal, log }: { readonly everyMs: number; readonly signal: AbortSignal; readonly log: Log },
): Promise<void> {
  for (;;) {
    await sleep(everyMs, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    await renew().catch((error: unknown) =>
      log.error({ err: error }, 'the fetching of a repository of skills could not be renewed'),
    );
  }
}

async function foundIn(
  { sealing, fetch, directory, owner, log }: SkillRepositoryParts,
  claimed: ClaimedSync,
  signal: AbortSignal,
): Promise<FoundRepository | { readonly error: string }> {
  const { id, ref, subfolder, username } = claimed;
  try {
    const program = findGit();
    if (program === null) throw new RepositoryFault('There is no program git on the PATH of the server.');
    const token =
      claimed.sealed_token === null ? null : sealing.open(claimed.sealed_token, rowOf(id)).toString();
    const url = claimed.url.replace(/\/+$/, '');
    const wanted = { url, ref, subfolder, username, token, pinnedCommit: claimed.pinned_commit };
    const git = { program, directory, owner, fetch, signal };
    return await withCommit(wanted, git, (commit) => skillsIn(commit, subfolder));
  } catch (error) {
    if (error instanceof RepositoryFault) return { error: error.message };
    if (signal.aborted) return { error: `It took longer than ${syncMs / 1000} s.` };
    log.error({ err: error, repository: id }, 'a repository of skills could not be fetched');
    return { error: 'It could not be read here, for a reason that the log of the server has.' };
  }
}

async function sweep({ directory, hasDied, log }: SkillRepositoryParts): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  for (const name of names) {
    const path = join(directory, name);
    try {
      const isOld = Date.now() - (await stat(path)).mtimeMs >= leftoverMs;
      if (!isOld && !hasDied(ownerOfScratch(name))) continue;
      await rm(path, { recursive: true, force: true });
    } catch (error) {
      log.error({ err: error, path }, 'what a killed process has fetched could not be removed');
    }
  }
}
