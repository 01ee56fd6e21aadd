/** People in organizations for the tests of the store: how they come in, and what they reach by then. */
import { randomUUID } from 'node:crypto';
import type { Role } from '../contract/api.ts';
import type { Reach, Store } from './store.ts';
import { newAccount, type TestEngine } from './test-stores.ts';

/** Somebody with an account, and what they reached when it was made. */
export type Person = Awaited<ReturnType<typeof newAccount>>;

export interface OrganizationTools {
  /** What somebody reaches now, asking as an operation does that needs this role. */
  reachOf(person: Pick<Reach, 'userId'>, needs?: Role): Promise<Reach>;
  /** The hash of a new invitation by the owner into the organization that they made first. */
  inviteTo(owner: Reach, email: string, role: Role): Promise<string>;
  /** Another person, who has come into the organization in this role. */
  colleague(owner: Reach, role: Role): Promise<Person>;
  rolesIn(organizationId: string): Promise<Role[]>;
  /** Two processes over one database. */
  nodes(): Promise<readonly [Store, Store]>;
}

export function organizationTools(store: () => Store, engine: TestEngine): OrganizationTools {
  const reachOf: OrganizationTools['reachOf'] = async ({ userId }, needs) => {
    const login = { userId, refreshHash: randomUUID(), expiresAt: new Date('2027-01-01') };
    const loginId = await store().logins.create({ ...login, method: 'password', device: null });
    const found = await store().principals.byLogin(loginId, engine.clock.now());
    const { memberships = [], workspaces = [] } = found ?? {};
    const organizationIds = memberships.map(({ organizationId }) => organizationId);
    return { userId, memberships, organizationIds, workspaces, ...(needs && { needs }) };
  };
  const inviteTo: OrganizationTools['inviteTo'] = async (owner, email, role) => {
    const hash = randomUUID();
    await store().invitations.create(await reachOf(owner, 'admin'), homeOf(owner), { email, role, hash });
    return hash;
  };
  return {
    reachOf,
    inviteTo,
    async colleague(owner, role) {
      const person = await newAccount(store(), role);
      await store().invitations.accept(person, await inviteTo(owner, person.email, role), engine.clock.now());
      return person;
    },
    rolesIn: async (organization_id) =>
      engine.sql()('memberships').where({ organization_id }).orderBy('user_id').pluck('role'),
    nodes: async () => [store(), await engine.open()],
  };
}

/** The organization that somebody came into first. */
export function homeOf({ organizationIds }: Reach): string {
  return organizationIds[0] ?? '';
}

/** The codes of those that were refused, sorted. */
export async function refusals(attempts: readonly Promise<unknown>[]): Promise<string[]> {
  const outcomes = await Promise.allSettled(attempts);
  return outcomes
    .flatMap((outcome) =>
      outcome.status === 'rejected' ? [String(outcome.reason.code ?? outcome.reason)] : [],
    )
    .sort();
}
