/**
 * Asks the server for TypeScript directly what is wrong with a file. What it publishes by itself names no version, comes
 * in parts, and does not come at all where nothing was and is wrong; an answer to a question has none of these faults.
 */
import { type FileReport, reportOf } from './diagnostics.ts';
import type { LanguageClient, RequestLimits } from './language-client.ts';
import { itemsOf, memberOf } from './server-requests.ts';

/** A command of typescript-language-server that hands a request on to tsserver. */
const command = 'typescript.tsserverRequest';
const kinds = ['syntacticDiagnosticsSync', 'semanticDiagnosticsSync'] as const;
const severities: Readonly<Record<string, number>> = { error: 1, warning: 2, message: 3, suggestion: 4 };

export function asksTsserver({ commands }: LanguageClient): boolean {
  return commands.includes(command);
}

/** Rejects with LanguageServerFailure. */
export async function tsserverReport(
  client: LanguageClient,
  path: string,
  version: number,
  limits: RequestLimits,
): Promise<FileReport> {
  const found: unknown[] = [];
  for (const kind of kinds) {
    const params = { command, arguments: [kind, { file: path }] };
    const answer = await client.request('workspace/executeCommand', params, limits);
    found.push(...itemsOf(answer, 'body').map(asProtocol));
  }
  return reportOf(found, version);
}

function asProtocol(item: unknown): unknown {
  const start = memberOf(item, 'start');
  const at = (name: string) => Number(memberOf(start, name)) - 1;
  return {
    range: { start: { line: at('line'), character: at('offset') } },
    severity: severities[String(memberOf(item, 'category'))] ?? 1,
    message: memberOf(item, 'text'),
    source: memberOf(item, 'source') ?? 'ts',
    code: memberOf(item, 'code'),
  };
}
