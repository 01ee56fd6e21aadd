/** Whoever is suspended gets in by no way. */
import type { User } from '../contract/api.ts';
import { Problem } from '../problem.ts';

/** Throws `account_suspended`. Call it once they have proved who they are. */
export function refuseSuspended({ status }: Pick<User, 'status'>): void {
  if (status !== 'suspended') return;
  throw new Problem(
    'account_suspended',
    'This account is suspended; ask an admin of your organization, or the operator of this server.',
  );
}
