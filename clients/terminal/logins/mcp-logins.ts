/** The logins to remote MCP servers: in the keyring of the system, or else in a file that only their owner can read. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { LoginKeeper } from '../../../server/mcp-access.ts';
import { type Keyring, systemKeyring } from './keyring.ts';
import { readPrivateFile, writePrivateFile } from './private-file.ts';

/** A secret stands in the file only where there is no keyring. */
type Entries = Readonly<Record<string, { readonly secret: string | null }>>;

/** @param dataHome - The folder of what belongs to the person and to no project. */
export function openMcpLogins(dataHome: string, keyring: Keyring = systemKeyring()): LoginKeeper {
  const file = join(dataHome, 'mcp-logins.json');
  const read = async (): Promise<Entries> => {
    const text = await readPrivateFile(file);
    return text === null ? {} : (JSON.parse(text) as { logins: Entries }).logins; // as `write` wrote it
  };
  const write = (logins: Entries) => writePrivateFile(file, `${JSON.stringify({ logins }, null, 2)}\n`);
  const nameOf = (server: string) => `mcp ${server}`;
  const alone = async <Result>(lock: string, action: () => Promise<Result>): Promise<Result> => {
    const { withLock } = await import('../../../server/config/config.ts');
    return await withLock(join(dataHome, 'locks'), lock, action);
  };
  return {
    // Less than others wait for the lock of a server.
    holdsMs: 8000,
    async read(server) {
      const entry = (await read())[server];
      return entry?.secret ?? (entry ? await keyring.read(nameOf(server)) : null);
    },
    async write(server, secret) {
      await alone(ofAll, async () => {
        const entries = await read();
        const inKeyring = await keyring.write(nameOf(server), secret);
        await write({ ...entries, [server]: { secret: inKeyring ? null : secret } });
      });
    },
    async remove(server) {
      await alone(ofAll, async () => {
        const { [server]: entry, ...others } = await read();
        if (!entry) return;
        if (entry.secret === null) await keyring.remove(nameOf(server));
        await write(others);
      });
    },
    locked: (server, action) => alone(lockOf(server), action),
  };
}

/** Held while the file is changed, which takes milliseconds. */
const ofAll = 'mcp-logins';

/** Of one server: its authorization server may keep a renewal waiting, and no other login waits with it. */
function lockOf(server: string): string {
  return `mcp-login-${createHash('sha256').update(server).digest('hex').slice(0, 16)}`;
}
