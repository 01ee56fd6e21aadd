/** What the model is told of a file that it has just changed: what the language servers find wrong with it. */

import type { FileReport } from './diagnostics.ts';
import { LanguageServerFailure } from './failure.ts';
import { type Judgement, judge, judgeOthers } from './judgement.ts';
import type { NewErrors } from './known-errors.ts';
import type { LanguageClient } from './language-client.ts';
import type { LanguageServer, LspTimes } from './language-server.ts';
import { counted, countsOf, diagnosticLines, shownPath } from './shown.ts';

const mostShown = 20;
/** Lines on what was found late, titles included; of those above. */
const mostLate = 10;
const mostFilesNamed = 5;
/** A server that says nothing for so many changes is not waited for as long any more. */
const patience = 2;
const impatientMs = 300;
const silenceTold = 'silence';

/** How often in a row a server had nothing to say in time; forgotten with it. */
const silences = new WeakMap<LanguageClient, number>();
/** Servers that have judged something before. */
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
  } finally {
    server.knownErrors.change(path);
  }
}

async function noteOf(
  server: LanguageServer,
  client: LanguageClient,
  path: string,
  times: LspTimes,
  signal: AbortSignal,
): Promise<string> {
  const { knownErrors } = server;
  const begun = knownErrors.begin(client, path);
  try {
    const judgement = await judgeInTime(client, path, times, signal);
    if (judgement === 'no document') return '';
    const report = judgement === 'silent' ? null : judgement;
    const limits = { timeoutMs: times.judgeMs / 2, signal };
    const answers = report ? await judgeOthers(client, path, limits) : new Map<string, FileReport>();
    // Nobody would see what counts as told.
    if (signal.aborted) return '';
    const found = knownErrors.take(client, { ...begun, report, answers });
    return noteOn(server, path, report, found);
  } finally {
    knownErrors.end(path);
  }
}

async function judgeInTime(
  client: LanguageClient,
  path: string,
  { judgeMs, startWaitMs, quietMs }: LspTimes,
  signal: AbortSignal,
): Promise<Judgement> {
  const silent = silences.get(client) ?? 0;
  const isFirst = !experienced.has(client);
  // The first time it reads the whole project.
  const usual = isFirst && silent === 0 ? Math.max(startWaitMs, judgeMs) : judgeMs;
  const timeoutMs = silent > patience ? Math.min(impatientMs, judgeMs) : usual;
  const judgement = await judge(client, path, { timeoutMs, quietMs, signal });
  if (judgement === 'no document') return judgement;
  silences.set(client, judgement === 'silent' ? silent + 1 : 0);
  if (judgement !== 'silent') experienced.add(client);
  return judgement;
}

function noteOn(
  server: LanguageServer,
  path: string,
  report: FileReport | null,
  found: readonly NewErrors[],
): string {
  const { late, lines, rest } = lateNotes(server, found);
  // One that falls silent again is no longer the one that the model was told of.
  if (report) server.told.delete(silenceTold);
  const own = report ? ownNote(server, path, report, mostShown - lines) : silence(server, path);
  return [own, ...late, elsewhereNote(server, rest)].filter(Boolean).join('\n');
}

function silence(server: LanguageServer, path: string): string {
  const { definition, workspacePath } = server;
  const said = `${definition.name} has not said yet what it thinks of ${shownPath(path, workspacePath)}`;
  const later =
    'the diagnostics tool asks it again, and errors that it finds later are told after the next change';
  return once(server, silenceTold, `The language server ${said}: ${later}.`);
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

function ownNote(
  { definition, workspacePath }: LanguageServer,
  path: string,
  report: FileReport,
  most: number,
): string {
  const serious = report.diagnostics.filter(({ severity }) => severity === 'error' || severity === 'warning');
  if (serious.length === 0) return '';
  const title = `${shownPath(path, workspacePath)} has ${countsOf(report)} (${definition.name}):`;
  return `${title}\n${diagnosticLines(serious, report.errors + report.warnings, most)}`;
}

/** What was found late, file by file, as long as there is room; and the files of which there is only the number of errors. */
function lateNotes(
  server: LanguageServer,
  found: readonly NewErrors[],
): { readonly late: readonly string[]; readonly lines: number; readonly rest: readonly NewErrors[] } {
  const late: string[] = [];
  const rest: NewErrors[] = [];
  let lines = 0;
  for (const errors of found) {
    // A title, an error, and how many more there are.
    if (errors.late === null || lines + 3 > mostLate) rest.push(errors);
    else {
      const note = lateNote(server, errors, mostLate - lines - 2);
      lines += note.split('\n').length;
      late.push(note);
    }
  }
  return { late, lines, rest };
}

function lateNote(
  { definition, workspacePath }: LanguageServer,
  { path, late, count, listed }: NewErrors,
  most: number,
): string {
  const shown = shownPath(path, workspacePath);
  const errors = `${counted(count, 'error')} (${definition.name})`;
  const title =
    late === 'in this text' ? `${shown} has ${errors}` : `${shown} had ${errors} before this change`;
  return `${title}, found late:\n${diagnosticLines(listed, count, most)}`;
}

function elsewhereNote({ workspacePath }: LanguageServer, files: readonly NewErrors[]): string {
  if (files.length === 0) return '';
  const total = files.reduce((sum, { count }) => sum + count, 0);
  // Of one file there may be something in what was published, and more in what was answered.
  const counts = new Map<string, number>();
  for (const { path, count } of files) counts.set(path, (counts.get(path) ?? 0) + count);
  const named = [...counts]
    .slice(0, mostFilesNamed)
    .map(([path, count]) => `${shownPath(path, workspacePath)} (${count})`);
  const more = counts.size > mostFilesNamed ? ', …' : '';
  return `Elsewhere: ${counted(total, 'new error')} in ${named.join(', ')}${more}.`;
}

/** Said once while the server runs; its silence again when it has answered in between. */
function once({ told }: LanguageServer, about: string, sentence: string): string {
  if (told.has(about)) return '';
  told.add(about);
  return sentence;
}
