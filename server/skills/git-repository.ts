/** Reads the files of one commit out of a git repository somewhere else: fetched shallow, never checked out. */
import type { OutboundFetch } from '../outbound/outbound.ts';
import { type Git, GitFailed, openGit } from './git-process.ts';
import { type GitRelay, openRelay, type RelayedRepository } from './git-relay.ts';
import { RepositoryFault } from './repository-fault.ts';
import { plain } from './shown-fault.ts';

/** Something that a commit has in the folder that is looked at. */
export interface TreeEntry {
  /** Relative to the top of the repository; null where its name is not UTF-8. */
  readonly path: string | null;
  readonly kind: 'file' | 'link' | 'submodule';
  readonly executable: boolean;
  readonly object: string;
  readonly size: number;
}

export interface WantedCommit extends RelayedRepository {
  readonly ref: string | null;
  readonly subfolder: string | null;
  readonly pinnedCommit: string | null;
}

/** A commit that was fetched. */
export interface FetchedCommit {
  readonly commit: string;
  readonly entries: readonly TreeEntry[];
  /** The contents of files, which together must not be more than those that a sync may keep. */
  read(entries: readonly TreeEntry[]): Promise<ReadonlyMap<string, Buffer>>;
}

export interface GitParts {
  readonly program: string;
  /** Where scratch folders are made. */
  readonly directory: string;
  /** Names this process. */
  readonly owner: string;
  readonly fetch: OutboundFetch;
  readonly signal: AbortSignal;
}

/** Of the whole pack: a shallow fetch brings the files of one commit. */
export const mostPackBytes = 64 * 1024 * 1024;
const mostEntries = 20_000;
const mostListBytes = 8 * 1024 * 1024;
const fetched = 'refs/service/fetched';

/** What `use` makes of the commit. Nothing is left on disk. Throws `RepositoryFault`. */
export async function withCommit<T>(
  wanted: WantedCommit,
  { program, directory, owner, fetch, signal }: GitParts,
  use: (commit: FetchedCommit) => Promise<T>,
): Promise<T> {
  const git = await openGit(program, directory, owner);
  try {
    await plainly(git, ['init', '--quiet', '--bare', '--template='], signal);
    const commit = await fetchCommit(git, wanted, fetch, signal);
    const entries = await list(git, commit, wanted.subfolder, signal);
    return await use({ commit, entries, read: (some) => readAll(git, some, signal) });
  } finally {
    await git.remove();
  }
}

async function fetchCommit(
  git: Git,
  wanted: WantedCommit,
  fetch: OutboundFetch,
  signal: AbortSignal,
): Promise<string> {
  const relay = await openRelay(wanted, fetch, { mostBytes: mostPackBytes, signal });
  const source = wanted.pinnedCommit ?? wanted.ref ?? 'HEAD';
  const words = ['fetch', '--quiet', '--depth=1', '--no-tags', '--no-write-fetch-head'];
  try {
    await git.sendAlong(relay.header);
    await plainly(git, [...words, '--', relay.url, `+${source}:${fetched}`], signal);
  } catch (error) {
    throw asFault(error, relay, wanted);
  } finally {
    await relay.close();
  }
  const commit = (await plainly(git, ['rev-parse', '--verify', `${fetched}^{commit}`], signal)).trim();
  if (wanted.pinnedCommit !== null && commit !== wanted.pinnedCommit)
    throw new RepositoryFault(`The server gave the commit ${commit} for ${wanted.pinnedCommit}.`);
  return commit;
}

/** What the relay knows is said in its words: those of git are about the relay. */
function asFault(error: unknown, relay: GitRelay, { ref, pinnedCommit }: WantedCommit): unknown {
  const known = relay.fault();
  if (known !== null) return new RepositoryFault(known, { cause: error });
  if (!(error instanceof GitFailed)) return error;
  const said = error.message.replaceAll(relay.url, 'the repository');
  if (/couldn't find remote ref/.test(said))
    return new RepositoryFault(
      ref === null ? 'The repository is empty.' : `The repository has no branch or tag ${ref}.`,
    );
  if (pinnedCommit !== null && /not our ref|no such remote ref|did not send all necessary/i.test(said))
    return new RepositoryFault(
      `The server has no commit ${pinnedCommit}, or does not give commits by their id.`,
    );
  return new RepositoryFault(`git refused what the server sent: ${reasonIn(said)}.`, { cause: error });
}

/** The first of its own complaints; what the other server says stands behind `remote:`. */
function reasonIn(said: string): string {
  const lines = said.split(/[\r\n]+/).map((line) => plain(line).trim());
  const own = lines.filter((line) => /^(error|fatal):/.test(line) && !/remote error/.test(line));
  const reason = own[0] ?? lines.findLast((line) => line !== '') ?? 'it says nothing of why';
  return reason
    .replace(/^(error|fatal): /, '')
    .replace(/\.$/, '')
    .slice(0, 300);
}

async function plainly(git: Git, args: readonly string[], signal: AbortSignal): Promise<string> {
  const pieces: Buffer[] = [];
  await git.run(args, { signal, onOutput: (piece) => pieces.push(piece) });
  return Buffer.concat(pieces).toString('utf8');
}

/** Each record ends with a zero byte: mode, kind, object, size, a tab, and the path as bytes. */
async function list(
  git: Git,
  commit: string,
  subfolder: string | null,
  signal: AbortSignal,
): Promise<TreeEntry[]> {
  const entries: TreeEntry[] = [];
  let rest: Buffer = Buffer.alloc(0);
  let bytes = 0;
  const onOutput = (piece: Buffer) => {
    bytes += piece.length;
    let left = Buffer.concat([rest, piece]);
    for (let end = left.indexOf(0); end >= 0; end = left.indexOf(0)) {
      entries.push(entryOf(left.subarray(0, end), subfolder));
      left = left.subarray(end + 1);
    }
    rest = left;
    // A few objects can make more paths than anybody could list.
    if (entries.length > mostEntries || bytes > mostListBytes)
      throw new RepositoryFault(
        `There are more than ${mostEntries} files, or their names are too long: name the subfolder with the skills.`,
      );
  };
  const tree = `${commit}:${subfolder ?? ''}`;
  try {
    await git.run(['ls-tree', '-r', '-z', '-l', '--full-tree', tree], { signal, onOutput });
  } catch (error) {
    if (error instanceof GitFailed && subfolder !== null)
      throw new RepositoryFault(`The commit ${commit} has no folder ${subfolder}.`, { cause: error });
    throw error;
  }
  return entries;
}

function entryOf(record: Buffer, subfolder: string | null): TreeEntry {
  const tab = record.indexOf(9);
  const [mode = '', , object = '', size = '0'] = record.subarray(0, tab).toString('latin1').split(/ +/);
  const path = nameOf(record.subarray(tab + 1));
  const kinds: Readonly<Record<string, TreeEntry['kind']>> = { 120000: 'link', 160000: 'submodule' };
  return {
    path: path === null || subfolder === null ? path : `${subfolder}/${path}`,
    kind: kinds[mode] ?? 'file',
    executable: mode === '100755',
    object,
    size: size === '-' ? 0 : Number(size),
  };
}

function nameOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // What it would be in another encoding nobody can say.
    return null;
  }
}

/** By object. The sizes that were listed are those of the objects themselves, so that no more comes than was counted. */
async function readAll(
  git: Git,
  entries: readonly TreeEntry[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Buffer>> {
  const objects = [...new Set(entries.map(({ object }) => object))];
  if (objects.length === 0) return new Map();
  const pieces: Buffer[] = [];
  await git.run(['cat-file', '--batch'], {
    signal,
    input: `${objects.join('\n')}\n`,
    onOutput: (piece) => pieces.push(piece),
  });
  const all = Buffer.concat(pieces);
  const contents = new Map<string, Buffer>();
  for (let at = 0; at < all.length; ) {
    const line = all.indexOf(10, at);
    const [object = '', kind, size] = all.subarray(at, line).toString('latin1').split(' ');
    const end = line + 1 + Number(size);
    if (line < 0 || kind !== 'blob' || !(end < all.length))
      throw new RepositoryFault('git left out a file that it had listed.');
    contents.set(object, all.subarray(line + 1, end));
    at = end + 1;
  }
  return contents;
}
