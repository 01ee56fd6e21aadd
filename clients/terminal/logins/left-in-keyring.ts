/** What a person is told of a secret that may be left in a keyring that cannot be reached. */
import { asTyped } from '../next-command.ts';
import { notice } from '../output.ts';
import { removalByHand } from './keyring.ts';

/**
 * @param entry - What the keyring calls it.
 * @param what - Whom the secret is for.
 */
export function sayWhatIsLeft(entry: string, what: string): void {
  const how = removalByHand(asTyped(entry)) ?? `the entry of service for ${entry}`;
  notice(
    `A secret for ${what} may be left in the keyring of the system, which cannot be reached now. Once it can, remove it there: ${how}`,
  );
}
