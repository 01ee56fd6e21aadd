/** What a language server says of a file as it is now: never what it said of it before. */
import { setTimeout as delay } from 'node:timers/promises';
import { type FileReport, pathOf, reportOf, uriOf } from './diagnostics.ts';
import type { LanguageClient, RequestLimits } from './language-client.ts';
import { itemsOf, memberOf, textOf } from './server-requests.ts';
import { asksTsserver, tsserverReport } from './tsserver-diagnostics.ts';

/** How long it may take. */
export interface JudgementLimits extends RequestLimits {
  readonly quietMs: number;
}

/** The report of this version; null where it did not come in time, or there is nothing that could be judged. */
export async function judge(
  client: LanguageClient,
  path: string,
  limits: JudgementLimits,
): Promise<FileReport | null> {
  const asked = performance.now();
  await client.refresh();
  const synced = client.documents.sync(path);
  if (!synced) return null;
  const { version, since } = synced;
  const until = asked + limits.timeoutMs;
  if (asksTsserver(client))
    return await answered(client, path, tsserverReport(client, path, version, limits));
  for (;;) {
    if (client.supports(pullMethod)) return await pulled(client, path, version, limits);
    const report = client.reports.get(path);
    // What came before this version was sent is about another one.
    const current = report && (report.version ?? version) === version && report.at >= since;
    if (current && performance.now() - report.at >= limits.quietMs) return report;
    if (performance.now() > until) return current ? report : null;
    await delay(25, undefined, { signal: limits.signal });
  }
}

const pullMethod = 'textDocument/diagnostic';

async function pulled(
  client: LanguageClient,
  path: string,
  version: number,
  limits: RequestLimits,
): Promise<FileReport | null> {
  const identifier = textOf(client.optionsOf(pullMethod), 'identifier');
  const params = { textDocument: { uri: uriOf(path) }, ...(identifier !== undefined && { identifier }) };
  const answer = await client.request(pullMethod, params, limits);
  const related = memberOf(answer, 'relatedDocuments');
  if (typeof related === 'object' && related !== null)
    for (const [uri, report] of Object.entries(related)) {
      const other = pathOf(uri);
      if (other !== null) client.reports.set(other, reportOf(itemsOf(report, 'items'), null));
    }
  return await answered(client, path, Promise.resolve(reportOf(itemsOf(answer, 'items'), version)));
}

async function answered(
  client: LanguageClient,
  path: string,
  report: Promise<FileReport>,
): Promise<FileReport> {
  const current = await report;
  client.reports.set(path, current);
  return current;
}
