/** `service memories export`, `import` and `purge`: memories in bulk. */
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import type { Memory, MemoryImportResult } from '@service/client/api';
import { askYesNo } from '../ask.ts';
import { withService, withSessions } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { counted, isTerminal, notice, print, printable, shown } from '../output.ts';
import { findSession } from '../session-ids.ts';
import { filtersOf, type MemoryOptions, requireSomebody } from './memories.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

/** Prints JSON Lines as the service has made them, the oldest first. */
export async function exportMemories(options: Where & MemoryOptions): Promise<void> {
  await withSessions(
    options.server,
    async (client) => {
      const query = await filtersOf(client, options);
      const { data } = await client.GET('/api/v1/memories/export', { params: { query }, parseAs: 'text' });
      // Exact into a file; on a terminal what others wrote must not be obeyed.
      process.stdout.write(isTerminal() ? shown(data) : data);
    },
    () => undefined,
  );
}

/** Takes JSON Lines in; what is wrong with one of them keeps no other. */
export async function importMemories(file: string | undefined, { server }: Where): Promise<void> {
  const lines = await read(file);
  await withService(server, async (client) => {
    const { data } = await client.POST('/api/v1/memories/import', {
      body: { file: '' },
      bodySerializer: () => {
        const form = new FormData();
        form.append('file', lines, 'memories.jsonl');
        return form;
      },
    });
    tell(data);
  });
}

function tell({ lines, created, duplicates, failed, errors }: MemoryImportResult): void {
  const known = `${duplicates} known already`;
  print(printable(`${counted(lines, 'line')}: ${created} remembered, ${known}, ${failed} refused`));
  if (failed === 0) return;
  for (const { line, message } of errors) notice(`line ${line}: ${message}`);
  if (failed > errors.length) notice(`and ${failed - errors.length} more`);
  throw new CommandFailure('Mend the lines that were refused and import the file again: nothing is doubled.');
}

/** Forgets all memories of one owner for good, after a question. */
export async function purgeMemories(
  options: Where & {
    readonly scope: Memory['scope'];
    readonly session?: string;
    readonly agent?: string;
    readonly yes?: boolean;
  },
): Promise<void> {
  requireSomebody(options);
  const { scope, session, agent } = options;
  await withSessions(
    options.server,
    async (client) => {
      const names = {
        ...(session !== undefined && { session_id: (await findSession(client, session)).id }),
        ...(agent !== undefined && { agent_slug: agent }),
      };
      const sure = options.yes || (await askYesNo(`Forget all memories of ${whose[scope]}?`));
      if (!sure) return notice('Nothing was forgotten.');
      const body = { scope, ...names, confirm: true } as const;
      const { data } = await client.POST('/api/v1/memories/purge', { body });
      const { purged } = data;
      const what = purged === 1 ? 'memory' : 'memories';
      print(purged === 0 ? nothingThere : printable(`Forgot ${purged} ${what}`));
    },
    () => print(nothingThere),
  );
}

const nothingThere = 'There was nothing to forget.';

const whose: Readonly<Record<Memory['scope'], string>> = {
  user: 'your own',
  workspace: 'this workspace',
  session: 'that session',
  agent: 'that agent here',
};

async function read(file: string | undefined): Promise<Blob> {
  if (file === undefined && process.stdin.isTTY)
    throw new CommandFailure(
      'Name the file to import, or send it through a pipe: service memories import memories.jsonl',
      exitCodes.usage,
    );
  if (file === undefined) return new Blob([await buffer(process.stdin)]);
  try {
    return new Blob([await readFile(file)]);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // reading a file fails with nothing else
    throw new CommandFailure(`${file} cannot be read (${code}).`, exitCodes.usage);
  }
}
