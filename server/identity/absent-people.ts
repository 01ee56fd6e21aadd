/** Who acts where nobody is there: the rights that a person, or a key of theirs, has at that moment. */
import type { Clock } from '../clock.ts';
import { allScopes } from '../scopes.ts';
import { type Principal, principalOfKey, toPrincipal } from './principal.ts';
import type { PrincipalRecords } from './records.ts';

/** On whose behalf something was left to be done. */
export interface AbsentPerson {
  readonly userId: string;
  /** The key that it was left with; null where a login did. */
  readonly apiKeyId: string | null;
}

/** Why nobody can act for them. */
export type Absence = 'owner_gone' | 'owner_suspended' | 'key_gone';

/** As they are now: what they were allowed when they left it counts no more. */
export async function principalFor(
  { userId, apiKeyId }: AbsentPerson,
  { principals, clock }: { readonly principals: PrincipalRecords; readonly clock: Clock },
): Promise<Principal | Absence> {
  const owner = await principals.byUser(userId);
  if (!owner) return 'owner_gone';
  if (owner.user.status === 'suspended') return 'owner_suspended';
  if (apiKeyId === null) return toPrincipal(owner, { kind: 'login', id: '', scopes: allScopes });
  const keyOwner = await principals.byApiKey(apiKeyId, clock.now());
  if (!keyOwner || keyOwner.user.id !== userId) return 'key_gone';
  const { disabled, expired, scopes } = keyOwner.apiKey;
  return disabled || expired || !scopes.includes('jobs:write') ? 'key_gone' : principalOfKey(keyOwner);
}
