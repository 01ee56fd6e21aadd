/** The logins to remote MCP servers: in the keyring of the system, or else in a file that only their owner can read. */
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
  return {
    async read(server) {
      const entry = (await read())[server];
      return entry?.secret ?? (entry ? await keyring.read(nameOf(server)) : null);
    },
    async write(server, secret) {
      const entries = await read();
      const inKeyring = await keyring.write(nameOf(server), secret);
      await write({ ...entries, [server]: { secret: inKeyring ? null : secret } });
    },
    async remove(server) {
      const { [server]: entry, ...others } = await read();
      if (!entry) return;
      if (entry.secret === null) await keyring.remove(nameOf(server));
      await write(others);
    },
    async locked(_server, action) {
      const { withLock } = await import('../../../server/config/config.ts');
      return await withLock(join(dataHome, 'locks'), 'mcp-logins', action);
    },
  };
}
