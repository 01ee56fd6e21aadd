/** The logins to remote servers: secrets in the keyring of the system, or else in a file that only their owner can read. */
import { join } from 'node:path';
import { CommandFailure, exitCodes } from '../failures.ts';
import { isUnwritable, unwritableHome } from '../unwritable.ts';
import { isRemoved, type Keyring, systemKeyring } from './keyring.ts';
import { assertPrivateFileWritable, readPrivateFile, writePrivateFile } from './private-file.ts';

/** What proves to a server who we are. */
export type Login =
  | { readonly kind: 'api_key'; readonly key: string }
  | {
      readonly kind: 'login';
      readonly email: string;
      readonly access_token: string;
      readonly refresh_token: string;
      readonly expires_at: string;
    };

/** The logins of this person, by the exact origin of the server. */
export interface Logins {
  readonly file: string;
  find(origin: string): Promise<Login | null>;
  origins(): Promise<readonly string[]>;
  /** Throws where no login could be kept, with what to do about it. */
  prepare(): Promise<void>;
  /**
   * Keeps a login in place of the one before, and says where. One that must be kept soon goes into the file where the keyring
   * waits for somebody.
   */
  keep(origin: string, login: Login, soon?: AbortSignal): Promise<'keyring' | 'file'>;
  /** Forgets a login, and says so where its secret may still be in a keyring that cannot be reached. */
  remove(origin: string): Promise<'removed' | 'left_in_keyring'>;
  /** Runs what reads and changes logins while no other process does. */
  locked<Result>(action: () => Promise<Result>): Promise<Result>;
}

/** A login is in a keyring that cannot be reached now. */
class KeyringAway extends CommandFailure {
  constructor(origin: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      `The keyring of the system, where the login to ${origin} is kept, cannot be read (${why}).\n` +
        'Unlock it, or start it: on Linux that is the Secret Service of the desktop, as gnome-keyring-daemon.\n' +
        `Or log in again without it: service login ${origin}, or set SERVICE_API_KEY. service logout ${origin} forgets the login.`,
    );
    this.cause = cause;
  }
}

interface Entry {
  /** Null where the keyring has it: a secret stands in the file only where there is none. */
  readonly login: Login | null;
  /** The keyring had the one before, and could not be reached when this one took its place. */
  readonly left_in_keyring?: true;
}

/** The file lists every login. */
type Entries = Readonly<Record<string, Entry>>;

/** @param dataHome - The folder of what belongs to the person and to no project. */
export function openLogins(dataHome: string, keyring: Keyring = systemKeyring()): Logins {
  const file = join(dataHome, 'logins.json');
  const read = async () => parse(await readPrivateFile(file), file);
  const write = (entries: Entries) =>
    writePrivateFile(file, `${JSON.stringify({ logins: entries }, null, 2)}\n`);
  const locked = async <Result>(action: () => Promise<Result>): Promise<Result> => {
    const { withLock } = await import('../../../server/config/config.ts');
    return await withLock(join(dataHome, 'locks'), 'logins', action);
  };
  return {
    file,
    async find(origin) {
      const entry = (await read())[origin];
      if (!entry || entry.login) return entry?.login ?? null;
      const secret = await keyring.read(origin).catch((cause: unknown) => {
        throw new KeyringAway(origin, cause);
      });
      return secret === null ? null : parseLogin(secret, origin);
    },
    origins: async () => Object.keys(await read()).sort(),
    async prepare() {
      try {
        await locked(() => assertPrivateFileWritable(file));
      } catch (error) {
        throw error instanceof Error && isUnwritable(error) ? unwritableHome(dataHome, error.message) : error;
      }
      await read();
    },
    async keep(origin, login, soon) {
      const entries = await read();
      const written = keyring.write(origin, JSON.stringify(login));
      const inKeyring = soon ? await answerSoon(written, soon) : await written;
      const mayBeLeft = inKeyring === null || isInKeyring(entries[origin]);
      const left = mayBeLeft && { left_in_keyring: true as const };
      const entry = inKeyring ? { login: null } : { login, ...left };
      await write({ ...entries, [origin]: entry });
      return inKeyring ? 'keyring' : 'file';
    },
    async remove(origin) {
      const { [origin]: entry, ...others } = await read();
      if (!entry) return 'removed';
      const isForgotten = isInKeyring(entry) ? await isRemoved(keyring, origin) : true;
      await write(others);
      return isForgotten ? 'removed' : 'left_in_keyring';
    },
    locked,
  };
}

/** In which a keyring answers that is open. */
const openKeyringMs = 500;

/** Null where the answer was not there soon after the signal, as from a keyring that is to be unlocked. */
async function answerSoon<Answer>(answer: Promise<Answer>, soon: AbortSignal): Promise<Answer | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  let timer: NodeJS.Timeout | undefined;
  const hurry = () => {
    timer = setTimeout(resolve, openKeyringMs, null);
  };
  if (soon.aborted) hurry();
  else soon.addEventListener('abort', hurry, { once: true });
  try {
    return await Promise.race([answer, late]);
  } finally {
    soon.removeEventListener('abort', hurry);
    clearTimeout(timer);
  }
}

/** Whether the keyring has a secret for it, or may still have one. */
function isInKeyring(entry: Entry | undefined): boolean {
  return entry !== undefined && (entry.login === null || entry.left_in_keyring === true);
}

/** What stands there is no part of the message, as it is in that of the parser. */
function parseLogin(secret: string, origin: string): Login {
  try {
    return JSON.parse(secret) as Login; // as `keep` wrote it, or it is of no use
  } catch {
    throw new CommandFailure(
      `The login to ${origin} in the keyring of the system is damaged: log in again by service login ${origin}`,
      exitCodes.failed,
    );
  }
}

function parse(text: string | null, file: string): Entries {
  if (text === null) return {};
  try {
    const { logins } = JSON.parse(text) as { logins: Entries }; // as `write` wrote it, or it is of no use
    return { ...logins };
  } catch {
    throw new Error(`${file} is damaged: remove it, and log in again.`);
  }
}
