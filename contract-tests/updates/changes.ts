/** Changes that can be told apart afterwards: each client adds a mark of its own to what it has read. */
import { grantedGroups } from '../access/things.ts';
import type { ContractOperation } from '../contract.ts';
import type { Answer } from './client.ts';

type Body = Answer['body'];

export interface Change {
  /** How many marks there is room for. */
  readonly marks: number;
  /** What has no mark: written first where there is one thing for all tests, which may have some of another test. */
  readonly first?: object;
  /** The body of a request that adds a mark to what was read. */
  add(seen: Body, mark: number): object;
  /** The marks that are there, in order. */
  found(seen: Body): readonly number[];
}

const most = 8;

/** Whatever has a name or a title keeps marks there; the others say where. */
export function changeOf({ operationId, body }: ContractOperation): Change {
  const own = changes[operationId];
  if (own) return own;
  const member = ['name', 'title'].find((name) => name in (body.properties ?? {}));
  if (member !== undefined)
    return inText(
      (seen) => seen[member],
      (text) => ({ [member]: text }),
    );
  throw new Error(`Say in changes.ts how marks are kept by ${operationId}`);
}

const kinds = ['large', 'small', 'embed'] as const;

const changes: Readonly<Record<string, Change>> = {
  updateMemory: inText(
    (seen) => seen.content,
    (content) => ({ content }),
  ),
  putSkill: {
    marks: most,
    add: ({ name, description }, mark) => ({
      file: `---\nname: ${name}\ndescription: ${description} m${mark}\n---\nDo it well.\n`,
    }),
    found: (seen) => allOf(most).filter((mark) => String(seen.description).split(' ').includes(`m${mark}`)),
  },
  updateFile: inText(
    (seen) => seen.filename,
    (filename) => ({ filename }),
  ),
  updateMessage: inText(
    (seen) => (seen.feedback as { comment: string } | null)?.comment,
    (comment) => ({ feedback: { rating: 'up', comment } }),
  ),
  // The merge patch replaces the whole list, as every scalar.
  updateWorkspaceConfig: inText(
    (seen) => (seen.settings as { key: string; value: unknown }[]).find(({ key }) => key === model)?.value,
    (text) => ({ models: { large: { provider: 'demo', model: text } } }),
  ),
  updatePreferences: inWords(['run_finished', 'question_asked', 'security'], {
    has: (seen, word) => !(seen.notifications as Record<string, boolean>)[word],
    add: (word) => ({ notifications: { [word]: false } }),
  }),
  // The merge patch replaces the whole list.
  updateMcpServer: {
    marks: most,
    add: (seen, mark) => ({ disabled_tools: [...toolsOff(seen), `m${mark}`] }),
    found: (seen) => allOf(most).filter((mark) => toolsOff(seen).includes(`m${mark}`)),
  },
  // Two marks, of which neither request says anything about the other.
  updateUser: inWords(['suspended', 'member'], {
    has: (seen, word) => JSON.stringify(seen).includes(`"${word}"`),
    add: (word) => (word === 'member' ? { role: word } : { status: word }),
  }),
  putOrgMember: inWords(['member'], { has: hasRole, add: (role) => ({ role }) }),
  putWorkspaceMember: inWords(['member'], { has: hasRole, add: (role) => ({ role }) }),
  // Whom it is granted to as a viewer is made a member; the others are written as they were read.
  putCorpusAccess: {
    marks: grantedGroups,
    add: (seen, mark) => ({
      grants: grantsOf(seen).map((grant, at) => (at === mark ? { ...grant, role: 'member' } : grant)),
    }),
    found: (seen) => allOf(grantedGroups).filter((mark) => grantsOf(seen)[mark]?.role === 'member'),
  },
  putCatalog: inText(
    (seen) => seen.name,
    (name) => ({ name, models: [] }),
  ),
  updateStorage: {
    marks: most,
    add: (seen, mark) => ({ max_file_bytes: Number(seen.max_file_bytes) + 2 ** mark }),
    first: { max_file_bytes: 2 ** 20 },
    found: (seen) => allOf(most).filter((mark) => (Number(seen.max_file_bytes) >> mark) % 2 === 1),
  },
  // One mark a kind; the others are written as they were read.
  putDefaultModels: {
    marks: kinds.length,
    add: ({ large, small, embed }, mark) => ({
      ...{ large, small, embed },
      [kinds[mark] ?? '']: 'scripted:scripted-1',
    }),
    found: (seen) => allOf(kinds.length).filter((mark) => seen[kinds[mark] ?? ''] !== null),
  },
  updateEmbedder: {
    marks: most,
    add: (seen, mark) => ({ batch_size: Number(seen.batch_size) + 2 ** mark }),
    first: { batch_size: 2 ** most },
    found: (seen) => allOf(most).filter((mark) => (Number(seen.batch_size) >> mark) % 2 === 1),
  },
  updateWebSearchSettings: {
    marks: most,
    add: (seen, mark) => ({ deny_domains: [...deniedBy(seen), `m${mark}.example`] }),
    first: { deny_domains: [] },
    found: (seen) => allOf(most).filter((mark) => deniedBy(seen).includes(`m${mark}.example`)),
  },
  // One bit a mark; the first one is what was there.
  putQuota: {
    marks: most,
    add: (seen, mark) => ({ limits: { jobs: { hard: hardOf(seen) + 2 ** (mark + 1) } } }),
    found: (seen) => allOf(most).filter((mark) => (hardOf(seen) >> (mark + 1)) % 2 === 1),
  },
};

const model = 'models.large.model';

/** As words at the end of a text. */
function inText(read: (seen: Body) => unknown, write: (text: string) => object): Change {
  const textOf = (seen: Body) => String(read(seen) ?? 'Made');
  return {
    marks: most,
    add: (seen, mark) => write(`${textOf(seen)} m${mark}`),
    found: (seen) => allOf(most).filter((mark) => textOf(seen).split(' ').includes(`m${mark}`)),
  };
}

/** As things that are one way or the other. */
function inWords(
  words: readonly string[],
  { has, add }: { has(seen: Body, word: string): boolean; add(word: string): object },
): Change {
  return {
    marks: words.length,
    add: (_, mark) => add(words[mark] ?? ''),
    found: (seen) => allOf(words.length).filter((mark) => has(seen, words[mark] ?? '')),
  };
}

function toolsOff(seen: Body): string[] {
  return seen.disabled_tools as string[];
}

function hasRole(seen: Body, word: string): boolean {
  return seen.role === word;
}

function grantsOf(seen: Body): { principal: string; role: string }[] {
  return seen.grants as { principal: string; role: string }[];
}

function deniedBy(seen: Body): string[] {
  return seen.deny_domains as string[];
}

function hardOf(seen: Body): number {
  return (seen.limits as { jobs: { hard: number } }).jobs.hard;
}

function allOf(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
