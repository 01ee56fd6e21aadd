/** The credential of the command that has the server inside its own process: an API key that is stored nowhere. */
import { timingSafeEqual } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { allScopes } from '../scopes.ts';
import { hashOf, newApiKeySecret } from './opaque-tokens.ts';
import { type Principal, toPrincipal } from './principal.ts';
import type { PrincipalRecords } from './records.ts';

export interface ProcessKeys {
  /** Makes the key that acts for the operator until this process ends. */
  issue(): Promise<string>;
  /** Null where the credential is not this process's key. */
  authenticate(secret: string): Promise<Principal | null>;
  /** The same for what was authenticated before; null where the id is another credential's. */
  principalOf(credentialId: string): Promise<Principal | null>;
}

/** In the place of an id of a stored key, which begins otherwise. */
const processKeyId = 'process';
/** Two commands may start at once in a new project: the operator is made by the faster. */
const operatorWithinMs = 10_000;

export function createProcessKeys(principals: PrincipalRecords): ProcessKeys {
  let issued: Buffer | null = null;
  const operator = async () => {
    const owner = await principals.operator();
    return owner && toPrincipal(owner, { kind: 'api_key', id: processKeyId, scopes: allScopes });
  };
  return {
    async issue() {
      const until = performance.now() + operatorWithinMs;
      while (!(await operator())) {
        if (performance.now() > until)
          throw new Error('This database has no operator, whom the command acts for.');
        await sleep(50);
      }
      const { secret, hash } = newApiKeySecret();
      issued = Buffer.from(hash);
      return secret;
    },
    async authenticate(secret) {
      return issued && timingSafeEqual(issued, Buffer.from(hashOf(secret))) ? operator() : null;
    },
    principalOf: async (credentialId) => (credentialId === processKeyId ? operator() : null),
  };
}
