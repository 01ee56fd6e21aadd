/** What a language server says of a file as it is now: never what it said of it before. */
import { setTimeout as delay } from 'node:timers/promises';
import { type FileReport, pathOf, reportOf, together, uriOf } from './diagnostics.ts';
import type { SyncedDocument } from './documents.ts';
import { LanguageServerFailure, LanguageServerRefusal, LanguageServerSilence } from './failure.ts';
import type { LanguageClient, RequestLimits } from './language-client.ts';
import { itemsOf, memberOf, textOf } from './server-requests.ts';
import { asksTsserver, tsserverReport } from './tsserver-diagnostics.ts';

/** How long it may take. */
export interface JudgementLimits extends RequestLimits {
  /** When nothing more was published for so long, that was all. */
  readonly quietMs: number;
}

/** The report of this version; or that it did not come in time, or that there is nothing to judge. */
export type Judgement = FileReport | 'silent' | 'no document';

/** Tells the server of the file as it is now, and waits for what it says. Rejects with LanguageServerFailure. */
export async function judge(
  client: LanguageClient,
  path: string,
  limits: JudgementLimits,
): Promise<Judgement> {
  const until = performance.now() + limits.timeoutMs;
  await client.refresh();
  const synced = client.documents.sync(path);
  if (!synced) return 'no document';
  try {
    for (;;) {
      client.assertAlive();
      const answer = question(client);
      if (answer) return await answer(path, synced, left(until, limits));
      const report = client.reports.published(path);
      const current = report && isCurrent(report, synced);
      if (current && performance.now() - report.at >= limits.quietMs) return report;
      if (performance.now() > until) return current ? report : 'silent';
      await delay(pollMs, undefined, { signal: limits.signal });
    }
  } catch (error) {
    if (error instanceof LanguageServerSilence) return 'silent';
    throw error;
  }
}

/**
 * Asks again about other documents that are open, as many as the time allows: a change there may have broken them. That it
 * refuses one takes nothing from what it said of the change. Answers with what it said of each: what it publishes of them
 * meanwhile may be of an earlier version.
 */
export async function judgeOthers(
  client: LanguageClient,
  path: string,
  limits: RequestLimits,
): Promise<ReadonlyMap<string, FileReport>> {
  const until = performance.now() + limits.timeoutMs;
  const answers = new Map<string, FileReport>();
  const others = client.documents.paths().filter((other) => other !== path);
  for (const other of others.slice(-mostOthers)) {
    const answer = question(client);
    const synced = client.documents.sync(other);
    if (!answer || !synced || performance.now() > until) return answers;
    try {
      answers.set(other, await answer(other, synced, left(until, limits)));
    } catch (error) {
      if (error instanceof LanguageServerFailure) return answers;
      throw error;
    }
  }
  return answers;
}

/**
 * Opens a document that is read, and asks what is wrong with it, as a server that publishes says by itself: asked with the
 * next change only, it would seem to be that change's doing. The server for TypeScript publishes, and is busy while it is
 * asked.
 */
export async function meet(client: LanguageClient, path: string, limits: RequestLimits): Promise<void> {
  const synced = client.documents.sync(path);
  const answered = client.reports.answered(path);
  if (!synced || (answered && isCurrent(answered, synced)) || asksTsserver(client)) return;
  await question(client)?.(path, synced, limits);
}

const mostOthers = 10;
const pollMs = 25;
const retryMs = 100;
const pullMethod = 'textDocument/diagnostic';

type Question = (path: string, synced: SyncedDocument, limits: RequestLimits) => Promise<FileReport>;

/** How the server can be asked; null for one that only publishes. Some say after their start that they can. */
function question(client: LanguageClient): Question | null {
  const { reports } = client;
  if (asksTsserver(client))
    return async (path, { version }, limits) => {
      const report = await tsserverReport(client, path, version, limits);
      // It is all that there is, of which parts are published as well.
      reports.replace(path, report);
      return report;
    };
  if (!client.supports(pullMethod)) return null;
  return async (path, synced, limits) => {
    const report = await pulledReport(client, path, synced.version, limits);
    reports.answer(path, report);
    const published = reports.published(path);
    return published && isCurrent(published, synced) ? together(report, published) : report;
  };
}

/** What came before this version was sent is about another one. */
export function isCurrent(report: FileReport, { version, since }: SyncedDocument): boolean {
  return (report.version ?? version) === version && report.at >= since;
}

async function pulledReport(
  client: LanguageClient,
  path: string,
  version: number,
  limits: RequestLimits,
): Promise<FileReport> {
  const identifier = textOf(client.optionsOf(pullMethod), 'identifier');
  const params = { textDocument: { uri: uriOf(path) }, ...(identifier !== undefined && { identifier }) };
  const answer = await requestUntilTaken(client, pullMethod, params, limits);
  const related = memberOf(answer, 'relatedDocuments');
  if (typeof related === 'object' && related !== null)
    for (const [uri, report] of Object.entries(related)) {
      const other = pathOf(uri);
      if (other !== null) client.reports.answer(other, reportOf(itemsOf(report, 'items'), null));
    }
  return reportOf(itemsOf(answer, 'items'), version);
}

/** Asks again, as long as there is time, where the server says that it has only given up for a change in between. */
export async function requestUntilTaken(
  client: LanguageClient,
  method: string,
  params: object,
  limits: RequestLimits,
): Promise<unknown> {
  const until = performance.now() + limits.timeoutMs;
  for (;;) {
    try {
      return await client.request(method, params, left(until, limits));
    } catch (error) {
      if (!(error instanceof LanguageServerRefusal) || !error.canBeRepeated) throw error;
      if (performance.now() + retryMs > until)
        throw new LanguageServerSilence(`it gives up ${method} again and again`, { cause: error });
      await delay(retryMs, undefined, { signal: limits.signal });
    }
  }
}

function left(until: number, { signal }: RequestLimits): RequestLimits {
  return { timeoutMs: Math.max(1, until - performance.now()), signal };
}
