/** Asks again who calls: for what takes long before it is done. */
import type { Principal, Services } from '../handler.ts';
import { Problem } from '../problem.ts';

/** Throws `credential_invalid` where the credential has ended, or has lost a right, since the request came. */
export async function requireStillValid(
  principal: Principal,
  { identity }: Pick<Services, 'identity'>,
): Promise<void> {
  const [valid] = await identity.stillValid([principal]);
  if (valid) return;
  throw new Problem(
    'credential_invalid',
    'The credential was revoked, or has lost a right, before this was done; log in again, or use another key.',
  );
}
