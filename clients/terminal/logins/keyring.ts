/** The keyring of the system: Keychain, Credential Manager, or the Secret Service of a Linux desktop. */
import { onWaitingThread } from '../interrupts.ts';

/** Keeps secrets by the server that they are for. */
export interface Keyring {
  /** Null where it has none. */
  read(origin: string): Promise<string | null>;
  /** False where there is no keyring. */
  write(origin: string, secret: string): Promise<boolean>;
  /** Rejects where what it keeps cannot be reached, and so may stay. */
  remove(origin: string): Promise<void>;
}

const owner = 'service';

/** The keyring of the kernel, which the package would take next on Linux, forgets at a restart what a login is kept for. */
const options = { linux: { store: 'secret-service' } } as const;

/** What a person types to remove a secret where this command cannot reach it; null where there is no such command. */
export function removalByHand(origin: string, platform: NodeJS.Platform = process.platform): string | null {
  if (platform === 'linux') return `secret-tool clear service ${owner} username ${origin}`;
  return platform === 'darwin' ? `security delete-generic-password -s ${owner} -a ${origin}` : null;
}

/** False where it cannot be reached: the login is forgotten here all the same. */
export async function isRemoved(keyring: Keyring, origin: string): Promise<boolean> {
  try {
    await keyring.remove(origin);
    return true;
  } catch {
    return false;
  }
}

/** Opened when it is used: where there is none, only what is kept in it fails. Each call waits until it is unlocked. */
export function systemKeyring(): Keyring {
  const entry = async (origin: string) => {
    const { AsyncEntry } = await import('@napi-rs/keyring');
    return new AsyncEntry(owner, origin, options);
  };
  return {
    async read(origin) {
      const opened = await entry(origin);
      return await onWaitingThread(() => opened.getPassword());
    },
    async write(origin, secret) {
      try {
        const opened = await entry(origin);
        await onWaitingThread(() => opened.setPassword(secret));
        return true;
      } catch {
        return false; // There is none, it is locked, or there is no build of the package for this system.
      }
    },
    async remove(origin) {
      const opened = await entry(origin);
      await onWaitingThread(() => opened.deleteCredential());
    },
  };
}
