/** `service web-search`: what an agent would find. */
import type { WebSearchResult } from '@service/client/api';
import { withService } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { type Column, notice, printTable } from '../output.ts';

interface Options {
  readonly limit?: string;
  readonly json?: boolean;
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

/** The best first. */
export async function searchWeb(words: readonly string[], options: Options): Promise<void> {
  const query = words.join(' ').trim();
  if (query === '') throw new CommandFailure('There is nothing to look for.', exitCodes.usage);
  const max_results = options.limit === undefined ? undefined : readLimit(options.limit);
  const body = { query, ...(max_results !== undefined && { max_results }) };
  const { results } = await withService(
    options.server,
    async (client) => (await client.POST('/api/v1/web/search', { body })).data,
  );
  if (results.length === 0 && !options.json) return notice(`Nothing was found for ${JSON.stringify(query)}.`);
  printTable(results, columns, { json: options.json });
}

const columns: readonly Column<WebSearchResult>[] = [
  { title: 'title', value: ({ title }) => title, style: 'bold' },
  { title: 'address', value: ({ url }) => url },
  { title: 'about', value: ({ snippet }) => snippet },
];

function readLimit(text: string): number {
  if (/^([1-9]|1\d|20)$/.test(text)) return Number(text);
  throw new CommandFailure('--limit takes a number from 1 to 20.', exitCodes.usage);
}
