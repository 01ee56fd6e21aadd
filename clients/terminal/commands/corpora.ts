/** `service corpora`: what there is to answer from, and what is found in it. */
import type { ServiceClient } from '@service/client';
import type { Corpus, PassageHit } from '@service/client/api';
import { askYesNo, canAsk } from '../ask.ts';
import { withSessions } from '../connection.ts';
import { placeOf } from '../corpora/citations.ts';
import { corporaOf, findCorpus, noSuchCorpus } from '../corpora/corpus-names.ts';
import { documentsOf, forgetCorpus, forgetFiles } from '../corpora/known-files.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { localTime } from '../local-time.ts';
import {
  brief,
  type Column,
  counted,
  isTerminal,
  notice,
  paint,
  print,
  printable,
  printJson,
  printTable,
  shown,
} from '../output.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

/** The latest first. */
export async function listCorpora({ server, json }: Where & { readonly json?: boolean }): Promise<void> {
  const corpora = await withSessions<readonly Corpus[]>(
    server,
    async (client) => await Array.fromAsync(corporaOf(client)),
    () => [],
  );
  if (corpora.length === 0 && !json)
    return notice('There is no corpus here yet. service corpora add <folder> makes one.');
  printTable(corpora, isTerminal() ? columnsForPeople : columnsForPrograms, { json });
}

const columnsForPrograms: readonly Column<Corpus>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'updated', value: ({ updated_at }) => updated_at },
  { title: 'documents', value: ({ stats }) => String(stats.documents) },
  { title: 'passages', value: ({ stats }) => String(stats.chunks) },
  { title: 'embedder', value: ({ embedder }) => embedder ?? '' },
  { title: 'name', value: ({ name }) => name },
];

const columnsForPeople: readonly Column<Corpus>[] = [
  { title: 'name', value: ({ name }) => brief(name, 40), style: 'cyan' },
  { title: 'documents', value: ({ stats }) => String(stats.documents) },
  { title: 'passages', value: ({ stats }) => String(stats.chunks) },
  { title: 'found by', value: ({ embedder }) => (embedder === null ? 'words' : 'words and meaning') },
  { title: 'updated', value: ({ updated_at }) => localTime(updated_at), style: 'dim' },
];

/** The best first, each with where it stands. */
export async function searchCorpus(
  given: string,
  question: readonly string[],
  options: Where & { readonly limit: string; readonly rerank?: string; readonly json?: boolean },
): Promise<void> {
  const { rerank: model } = options;
  const body = {
    ...{ query: question.join(' '), top_k: readLimit(options.limit) },
    ...(model !== undefined && { rerank: { model } }),
  };
  const { data, notice: said } = await withCorpus(options.server, given, async (client, { id }) => {
    const params = { path: { corpus_id: id } };
    return (await client.POST('/api/v1/corpora/{corpus_id}/search', { params, body })).data;
  });
  if (options.json) return printJson(data);
  if (said !== null) notice(said);
  if (data.length === 0) return notice('Nothing was found.');
  print(data.map(describeHit).join('\n\n'));
}

function describeHit(hit: PassageHit, index: number): string {
  const head = paint('cyan', `[${index + 1}] ${printable(placeOf(hit))}`);
  return `${head}\n${isTerminal() ? shown(hit.text) : hit.text}`;
}

/** Deletes a corpus for good, after a question. Files that others are made from stay. */
export async function deleteCorpus(given: string, { server, yes }: Where & { readonly yes?: boolean }) {
  if (!yes && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: --yes deletes without asking.',
      exitCodes.usage,
    );
  await withCorpus(server, given, async (client, corpus) => {
    const documents = await Array.fromAsync(documentsOf(client, corpus));
    const question = `Delete “${printable(corpus.name)}” with its ${counted(documents.length, 'document')}?`;
    if (!yes && !(await askYesNo(question))) return notice('Nothing was deleted.');
    await forgetCorpus(client, corpus);
    await forgetFiles(
      client,
      documents.flatMap(({ file_id }) => file_id ?? []),
    );
    print(printable(`Deleted ${corpus.id}`));
  });
}

async function withCorpus<Result>(
  server: string | undefined,
  given: string,
  work: (client: ServiceClient, corpus: Corpus) => Promise<Result>,
): Promise<Result> {
  return await withSessions(
    server,
    async (client) => await work(client, await findCorpus(client, given)),
    () => {
      throw noSuchCorpus(given);
    },
  );
}

function readLimit(text: string): number {
  if (/^([1-9]\d?|100)$/.test(text)) return Number(text);
  throw new CommandFailure(
    `--limit takes a number from 1 to 100, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}
