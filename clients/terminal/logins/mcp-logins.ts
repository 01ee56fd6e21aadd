/** The logins to remote MCP servers: in the keyring of the system, or else in a file that only their owner can read. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { LoginKeeper } from '../../../server/mcp-access.ts';
import { isRemoved, type Keyring, systemKeyring } from './keyring.ts';
import { readPrivateFile, writePrivateFile } from './private-file.ts';

interface Entry {
  /** Null where the keyring has it: a secret stands in the file only where there is none. */
  readonly secret: string | null;
  /** The keyring had the one before, and could not be reached when this one took its place. */
  readonly left_in_keyring?: true;
}

type Entries = Readonly<Record<string, Entry>>;

export interface McpLogins extends LoginKeeper {
  /** Forgets a login, and says so where there is none, or its secret may still be in a keyring that cannot be reached. */
  forget(server: string): Promise<'removed' | 'absent' | 'left_in_keyring'>;
  /** The addresses of those that there is a login to. */
  servers(): Promise<readonly string[]>;
}

/** A lock whose holder nobody can see counts as abandoned after 30 s. */
const holdsMs = 25_000;
/** Whoever waits for a renewal outlasts it, and what it has brought is kept meanwhile. */
const marginMs = 5000;

/** What the keyring calls the login to a server. */
export function keyringName(server: string): string {
  return `mcp ${server}`;
}

/** @param dataHome - The folder of what belongs to the person and to no project. */
export function openMcpLogins(dataHome: string, keyring: Keyring = systemKeyring()): McpLogins {
  const file = join(dataHome, 'mcp-logins.json');
  const read = async (): Promise<Entries> => {
    const text = await readPrivateFile(file);
    if (text === null) return {};
    try {
      return { ...(JSON.parse(text) as { logins: Entries }).logins }; // as `write` wrote it, or it is of no use
    } catch {
      // What stands there is no part of the message, as it is in that of the parser.
      throw new Error(`${file} is damaged: remove it, and log in again.`);
    }
  };
  const write = (logins: Entries) => writePrivateFile(file, `${JSON.stringify({ logins }, null, 2)}\n`);
  const alone = async <Result>(
    lock: string,
    action: () => Promise<Result>,
    patienceMs?: number,
  ): Promise<Result> => {
    const { withLock } = await import('../../../server/config/config.ts');
    return await withLock(join(dataHome, 'locks'), lock, action, patienceMs);
  };
  // The keyring goes before the file is held: it may wait until somebody unlocks it, and nobody else is to wait for that.
  const forget = async (server: string) => {
    const entry = (await read())[server];
    if (!entry) return 'absent';
    const isForgotten = isInKeyring(entry) ? await isRemoved(keyring, keyringName(server)) : true;
    await alone(ofAll, async () => {
      const { [server]: _gone, ...others } = await read();
      await write(others);
    });
    return isForgotten ? 'removed' : 'left_in_keyring';
  };
  return {
    holdsMs,
    async read(server) {
      const entry = (await read())[server];
      if (!entry || entry.secret !== null) return entry?.secret ?? null;
      return await keyring.read(keyringName(server)).catch((cause: unknown) => {
        throw keyringAway(cause);
      });
    },
    async write(server, secret) {
      const inKeyring = await keyring.write(keyringName(server), secret);
      await alone(ofAll, async () => {
        const entries = await read();
        const left = isInKeyring(entries[server]) && { left_in_keyring: true as const };
        await write({ ...entries, [server]: inKeyring ? { secret: null } : { secret, ...left } });
      });
    },
    async remove(server) {
      await forget(server);
    },
    forget,
    servers: async () => Object.keys(await read()).sort(),
    locked: (server, action) => alone(lockOf(server), action, holdsMs + marginMs),
  };
}

/** Whether the keyring has a secret for it, or may still have one. */
function isInKeyring(entry: Entry | undefined): boolean {
  return entry !== undefined && (entry.secret === null || entry.left_in_keyring === true);
}

function keyringAway(cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `its login is in the keyring of the system, which cannot be read (${why}): unlock or start that, or log in again without it by service mcp login`;
  return Object.assign(new Error(message, { cause }), { name: 'LoginUnreadable' });
}

/** Held while the file is changed, which takes milliseconds. */
const ofAll = 'mcp-logins';

/** Of one server: its authorization server may keep a renewal waiting, and no other login waits with it. */
function lockOf(server: string): string {
  return `mcp-login-${createHash('sha256').update(server).digest('hex').slice(0, 16)}`;
}
