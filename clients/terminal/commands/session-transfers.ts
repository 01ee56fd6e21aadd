/** `service sessions export` and `import`: a session as a document. */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { SessionExport } from '@service/client/api';
import { withService, withSessions } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { print, printable } from '../output.ts';
import { findSession, noSuchSession } from '../session-ids.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

/** Prints the document as the service has made it. */
export async function exportSession(
  id: string,
  { server, format }: Where & { readonly format: 'json' | 'jsonl' | 'markdown' | 'html' },
): Promise<void> {
  await withSessions(
    server,
    async (client) => {
      const { id: session_id } = await findSession(client, id);
      const params = { path: { session_id }, query: { format } };
      const { data } = await client.GET('/api/v1/sessions/{session_id}/export', { params, parseAs: 'text' });
      process.stdout.write(data.endsWith('\n') ? data : `${data}\n`);
    },
    () => {
      throw noSuchSession(id);
    },
  );
}

/** Makes a session from a document, and says how to go on in it. */
export async function importSession(file: string | undefined, { server }: Where): Promise<void> {
  const body = parse(await read(file), file ?? 'standard input');
  await withService(server, async (client) => {
    const { data } = await client.POST('/api/v1/sessions/import', { body });
    print(`${data.id} ${printable(data.title)}`);
  });
}

async function read(file: string | undefined): Promise<string> {
  if (file === undefined) return await text(process.stdin);
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // reading a file fails with nothing else
    throw new CommandFailure(`${file} cannot be read (${code}).`, exitCodes.usage);
  }
}

/** Its form is for the service to judge, which says what is wrong with it. */
function parse(document: string, where: string): SessionExport {
  try {
    return JSON.parse(document) as SessionExport;
  } catch {
    throw new CommandFailure(
      `${where} holds no JSON. Only what service sessions export prints in the format json can be imported.`,
      exitCodes.usage,
    );
  }
}
