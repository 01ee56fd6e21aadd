/** A new program beside servers of the older one: its commands leave the database to them until it was migrated. */
import { mkdir, readdir } from 'node:fs/promises';
import { describe, expect, inject, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { openStore } from '../store/store.ts';
import { createInvitation, rotateMasterKey, verifyAuditChain } from './maintenance.ts';
import { install, newestTable, undoNewestSteps } from './test-installation.ts';

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null)(
    'whoever verifies, invites or rotates is told to start a server first, and nothing changes',
    async () => {
      const { settings, url, ask } = await install(database);
      await mkdir(settings.dataDirectory, { recursive: true });
      const open = async () =>
        (await openStore(url, { clock: systemClock, log: createLog('silent') })).close();
      const steps = () => ask((sql) => sql('schema_versions').orderBy('version').pluck('name'));
      const commands = [verifyAuditChain, createInvitation, rotateMasterKey];
      await open();
      await undoNewestSteps({ ask });
      const older = await steps();
      const names = await readdir(settings.dataDirectory);

      for (const command of commands)
        await expect(command(settings), command.name).rejects.toThrow(
          'start the server of this version first',
        );
      expect(await steps()).toEqual(older);
      expect(await ask((sql) => sql.schema.hasTable(newestTable))).toBe(false);
      // Neither a copy nor a key was made.
      expect(await readdir(settings.dataDirectory)).toEqual(names);

      await open();
      expect((await verifyAuditChain(settings)).valid).toBe(true);
    },
  );
});
