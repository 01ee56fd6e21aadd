/** Who calls: each column of the matrix, with the credential that it brings. */
import type { Scope } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { expect, vi } from 'vitest';
import { type ContractOperation, operations } from '../contract.ts';
import type { Server } from '../start-server.ts';
import {
  found,
  join,
  logInAsOperator,
  newWorkspace,
  type Organization,
  type Person,
  register,
} from './people.ts';

/** Each caller, in the order of the columns and of the requests: who may least comes first, and disturbs nobody. */
export const callers = {
  nobody: 'without a token',
  garbage: 'with a token that nobody was given',
  expired: 'with a key whose time is over',
  revoked: 'with a key that was revoked',
  unscoped:
    'the owner (of operations for the operator: the operator), with a key that has every scope but that of the operation',
  newcomer: 'who has just registered',
  stranger: 'a member of another organization',
  rival: 'the owner of another organization',
  operator: 'the operator of the installation',
  colleague: 'a member of the organization and of another workspace of it',
  viewer: 'a viewer of the organization and of the workspace',
  member: 'a member of the organization and of the workspace',
  admin: 'an admin of the organization',
  owner: 'the owner of the organization, who made the object',
  scoped:
    'the owner (of operations for the operator: the operator), with a key that has the scope of the operation alone',
} as const;

export type Caller = keyof typeof callers;
// The keys of a record are its names; Object.keys cannot say so.
export const callerNames = Object.keys(callers) as Caller[];

/** Who belongs to another organization. */
export const outsiders: readonly Caller[] = ['newcomer', 'stranger', 'rival'];

export interface Cast {
  readonly ours: Organization;
  readonly theirs: Organization;
  /** Those of the callers who are logged in. */
  readonly people: Readonly<Partial<Record<Caller, Person>>>;
  readonly operator: Person;
  /** Whose logins may end at any time. */
  readonly spare: Person;
  /** What a caller brings to an operation; null for nothing. */
  credential(caller: Caller, operation: ContractOperation): Promise<string | null>;
}

export async function openCast(server: Server): Promise<Cast> {
  // The owner is the account of the contract's examples.
  const ours = await found(server, 'ada@example.com');
  const theirs = await found(server, 'rival@example.com');
  const operator = await logInAsOperator(server);
  const { workspaceId } = ours;
  const elsewhere = await newWorkspace(ours);
  const people = {
    operator,
    owner: ours.owner,
    admin: await join(server, ours, 'admin', { email: 'admin@example.com' }),
    member: await join(server, ours, 'member', { email: 'member@example.com', workspaceId }),
    viewer: await join(server, ours, 'viewer', { email: 'viewer@example.com', workspaceId }),
    colleague: await join(server, ours, 'member', {
      email: 'colleague@example.com',
      workspaceId: elsewhere,
    }),
    rival: theirs.owner,
    stranger: await join(server, theirs, 'member', { email: 'stranger@example.com' }),
    newcomer: await register(server, 'newcomer@example.com'),
  };
  const ended = {
    garbage: 'nobody-was-given-this',
    expired: await expiredKey(server, ours.owner),
    revoked: await revokedKey(ours.owner),
  };
  const keyWith = keysOf(new Set(operations.flatMap(({ access: { scope } }) => scope ?? [])));
  return {
    ours,
    theirs,
    people,
    operator,
    spare: await register(server, 'spare@example.com'),
    async credential(caller, { access: { allow, scope } }) {
      if (caller === 'nobody') return null;
      if (caller in ended) return ended[caller as keyof typeof ended]; // As the line before has found.
      const holder = allow === 'operator' ? operator : ours.owner;
      if (caller === 'scoped') return keyWith(holder, (one) => one === (scope ?? one));
      if (caller === 'unscoped') return keyWith(holder, (one) => one !== scope);
      return people[caller as keyof typeof people].token; // Whoever is left is a person.
    },
  };
}

/** One key for each person and each choice of scopes. */
function keysOf(all: ReadonlySet<Scope>) {
  const keys = new Map<string, string>();
  return async (holder: Person, chosen: (scope: Scope) => boolean): Promise<string> => {
    const scopes = [...all].filter(chosen);
    const name = `${holder.id} ${scopes}`;
    const key = keys.get(name) ?? (await newKey(holder, { scopes })).key;
    keys.set(name, key);
    return key;
  };
}

async function newKey({ client }: Person, body: { scopes?: Scope[]; expires_at?: string } = {}) {
  return (await client.POST('/api/v1/auth/api-keys', { body: { name: 'Of the matrix', ...body } })).data;
}

async function expiredKey(server: Server, owner: Person): Promise<string> {
  const key = await shortLivedKey(owner, 1);
  const headers = { Authorization: `Bearer ${key}` };
  await vi.waitFor(async () => {
    expect((await fetch(`${server.url}/api/v1/users/me`, { headers })).status).toBe(401);
  }, 30_000);
  return key;
}

/** On a machine that is very busy the moment may be over when the request arrives, and is refused: then a later one. */
async function shortLivedKey(owner: Person, seconds: number): Promise<string> {
  try {
    return (await newKey(owner, { expires_at: new Date(Date.now() + seconds * 1000).toISOString() })).key;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status !== 400 || seconds > 20) throw error;
    return shortLivedKey(owner, seconds * 4);
  }
}

async function revokedKey(owner: Person): Promise<string> {
  const { key, api_key } = await newKey(owner);
  const path = { key_id: api_key.id };
  await owner.client.DELETE('/api/v1/auth/api-keys/{key_id}', { params: { path } });
  return key;
}
