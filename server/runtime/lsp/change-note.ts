/** What the model is told of a file that it has just changed: what the language servers find wrong with it. */

import type { FileReport, Reports } from './diagnostics.ts';
import { LanguageServerFailure } from './failure.ts';
import { judge, judgeOthers } from './judgement.ts';
import type { LanguageClient } from './language-client.ts';
import type { LanguageServer, LspTimes } from './language-server.ts';
import { counted, countsOf, diagnosticLines, shownPath } from './shown.ts';

const mostShown = 20;
const mostFilesNamed = 5;
/** A server that says nothing for so many changes is not waited for as long any more. */
const patience = 2;
const impatientMs = 300;

/** How often in a row a server had nothing to say in time; forgotten with it. */
const silences = new WeakMap<LanguageClient, number>();
/** Servers that have judged something before: only then is it known what is new elsewhere. */
const experienced = new WeakSet<LanguageClient>();

/** Empty where there is nothing to say. */
export async function noteOfChange(
  server: LanguageServer,
  path: string,
  times: LspTimes,
  signal: AbortSignal,
): Promise<string> {
  try {
    const client = await startedWithin(server, times.startWaitMs, signal);
    if (client === null)
      return once(
        server,
        'start',
        `The language server ${server.definition.name} is still starting: the diagnostics tool asks it later.`,
      );
    return await noteOf(server, client, path, times, signal);
  } catch (error) {
    if (signal.aborted) return '';
    if (!(error instanceof LanguageServerFailure)) throw error;
    return once(
      server,
      error.message,
      `The language server ${server.definition.name} is of no use now: ${error.message}.`,
    );
  }
}

async function noteOf(
  server: LanguageServer,
  client: LanguageClient,
  path: string,
  { judgeMs, startWaitMs, quietMs }: LspTimes,
  signal: AbortSignal,
): Promise<string> {
  const before = errorCounts(client.reports.all());
  const silent = silences.get(client) ?? 0;
  const isFirst = !experienced.has(client);
  // The first time it reads the whole project.
  const usual = isFirst && silent === 0 ? Math.max(startWaitMs, judgeMs) : judgeMs;
  const timeoutMs = silent > patience ? Math.min(impatientMs, judgeMs) : usual;
  const report = await judge(client, path, { timeoutMs, quietMs, signal });
  if (report === 'no document') return '';
  silences.set(client, report === 'silent' ? silent + 1 : 0);
  if (report === 'silent')
    return once(server, 'silence', `${silence(server, path)}: the diagnostics tool asks it again.`);
  experienced.add(client);
  const former = await judgeOthers(client, path, { timeoutMs: judgeMs / 2, signal });
  const known = new Map([...before, ...errorCounts(former)]);
  const elsewhere = isFirst ? [] : newElsewhere(known, client.reports, path);
  return [ownNote(server, path, report), elsewhereNote(server, elsewhere)].filter(Boolean).join('\n');
}

function silence({ definition, workspacePath }: LanguageServer, path: string): string {
  return `The language server ${definition.name} has not said yet what it thinks of ${shownPath(path, workspacePath)}`;
}

/** Null where it takes longer; the start goes on. */
async function startedWithin(
  server: LanguageServer,
  limitMs: number,
  signal: AbortSignal,
): Promise<LanguageClient | null> {
  const over = Promise.withResolvers<null>();
  const stop = () => over.resolve(null);
  const timer = setTimeout(stop, limitMs);
  signal.addEventListener('abort', stop, { once: true });
  const used = server.use();
  // Its failure is told at the next use if nobody waits for it any more.
  used.catch(() => undefined);
  try {
    return await Promise.race([used, over.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

function ownNote({ definition, workspacePath }: LanguageServer, path: string, report: FileReport): string {
  const serious = report.diagnostics.filter(({ severity }) => severity === 'error' || severity === 'warning');
  if (serious.length === 0) return '';
  const title = `${shownPath(path, workspacePath)} has ${countsOf(report)} (${definition.name}):`;
  return `${title}\n${diagnosticLines(serious, report.errors + report.warnings, mostShown)}`;
}

function elsewhereNote(
  { workspacePath }: LanguageServer,
  files: readonly (readonly [string, number])[],
): string {
  if (files.length === 0) return '';
  const total = files.reduce((sum, [, count]) => sum + count, 0);
  const named = files
    .slice(0, mostFilesNamed)
    .map(([path, count]) => `${shownPath(path, workspacePath)} (${count})`);
  const more = files.length > mostFilesNamed ? ', …' : '';
  return `Elsewhere: ${counted(total, 'new error')} in ${named.join(', ')}${more}.`;
}

function errorCounts(reports: ReadonlyMap<string, FileReport>): ReadonlyMap<string, number> {
  return new Map([...reports].map(([path, { errors }]) => [path, errors]));
}

function newElsewhere(
  before: ReadonlyMap<string, number>,
  reports: Reports,
  except: string,
): readonly (readonly [string, number])[] {
  return [...reports.all()].flatMap(([path, { errors }]) => {
    const added = errors - (before.get(path) ?? 0);
    return path === except || added <= 0 ? [] : [[path, added] as const];
  });
}

/** Said once for as long as the server runs. */
function once({ told }: LanguageServer, about: string, sentence: string): string {
  if (told.has(about)) return '';
  told.add(about);
  return sentence;
}
