/** `service sessions export` and `import`: a session as a document. */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { SessionExport } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { withService, withSessions } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { keyed } from '../lost-answers.ts';
import { nextCommand } from '../next-command.ts';
import { isTerminal, notice, print, printable, shown } from '../output.ts';
import { keepLatest } from '../server-sessions.ts';
import { findSession, noSuchSession, shortIds } from '../session-ids.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

interface What extends Where {
  readonly format: 'json' | 'jsonl' | 'markdown' | 'html';
  /** Whether it holds the bytes of files, where the format does. */
  readonly files: boolean;
}

/** What takes the place of what the document says. */
interface Instead extends Where {
  readonly agent?: string;
  readonly model?: string;
}

/** As the contract has it: no import takes a larger document. */
const mostMebibytes = 32;

/** Prints the document as the service has made it. */
export async function exportSession(id: string, { server, format, files }: What): Promise<void> {
  await withSessions(
    server,
    async (client) => {
      const { id: session_id } = await findSession(client, id);
      const params = { path: { session_id }, query: { format, include_files: files } };
      const { data } = await client.GET('/api/v1/sessions/{session_id}/export', { params, parseAs: 'text' });
      const whole = data.endsWith('\n') ? data : `${data}\n`;
      // Exact into a file; on a terminal what others wrote must not be obeyed.
      process.stdout.write(isTerminal() ? shown(whole) : whole);
      if (format === 'json') tellOfSize(Buffer.byteLength(data), files);
    },
    () => {
      throw noSuchSession(id);
    },
  );
}

function tellOfSize(bytes: number, withFiles: boolean): void {
  if (bytes <= mostMebibytes * 1024 ** 2) return;
  const way = withFiles ? ' With --no-files its pictures and documents are only named.' : '';
  notice(`The document cannot be imported again: it is larger than ${mostMebibytes} MiB.${way}`);
}

/** Makes a session from a document, and says how to go on in it. */
export async function importSession(
  file: string | undefined,
  { server, agent, model }: Instead,
): Promise<void> {
  const where = file ?? 'standard input';
  const body = parse(await read(file), where);
  await withService(server, async (client) => {
    const query = {
      ...(agent !== undefined && { agent_slug: agent }),
      ...(model !== undefined && { model }),
    };
    const asked = client.POST('/api/v1/sessions/import', { body, params: { query, header: keyed() } });
    const { data } = await asked.catch((error: unknown) => {
      throw explained(error, where);
    });
    if (server !== undefined) await keepLatest(server, data.id);
    print(printable(`${data.id} ${data.title}`));
    if (!isTerminal(process.stderr)) return;
    const words = `--session ${shortIds([data.id])(data.id)} "…"`;
    notice(`To go on in it: ${nextCommand('run', server, words)}`);
  });
}

/** What the service finds in a document needs to be told of which. */
function explained(error: unknown, where: string): unknown {
  if (!(error instanceof ServiceError)) return error;
  const option = options[error.code];
  if (option) return new CommandFailure(`${error.detail}\nHere that is ${option}.`);
  if (error.code === 'body_too_large')
    return new CommandFailure(
      `${where} is larger than ${mostMebibytes} MiB; export the session with --no-files, which leaves its pictures and documents out.`,
    );
  if (error.code !== 'invalid_request') return error;
  return new CommandFailure(
    `${where} is no session as service sessions export prints it in the format json: ${error.detail}`,
  );
}

/** By which another takes the place of what is not there. */
const options: Readonly<Record<string, string>> = {
  agent_not_found: '--agent <slug>',
  model_not_found: '--model <name>',
  no_provider_configured: '--model <name>',
};

async function read(file: string | undefined): Promise<string> {
  if (file === undefined && process.stdin.isTTY)
    throw new CommandFailure(
      'Name the file to import, or send it through a pipe: service sessions import session.json',
      exitCodes.usage,
    );
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
    // Some editors begin a file with a byte order mark, which is no part of the JSON.
    return JSON.parse(document.replace(/^\ufeff/, '')) as SessionExport;
  } catch {
    throw new CommandFailure(
      `${where} holds no JSON. Only what service sessions export prints in the format json can be imported.`,
      exitCodes.usage,
    );
  }
}
