/** `service corpora add`: takes folders and files into a corpus, and waits until they can be found. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { Corpus } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { withService } from '../connection.ts';
import { type Added, addFiles } from '../corpora/add-files.ts';
import { corporaOf, severalAre } from '../corpora/corpus-names.ts';
import { type FailedFile, filesBelow, nameFor } from '../corpora/local-files.ts';
import { CommandFailure } from '../failures.ts';
import { catchInterrupts } from '../interrupts.ts';
import { keyed } from '../lost-answers.ts';
import { asTyped, nextCommand } from '../next-command.ts';
import { counted, isTerminal, notice, print, printable, printJson } from '../output.ts';
import { noProgress, type Progress, startProgress } from '../run/progress.ts';

interface Wishes {
  readonly name?: string;
  readonly json?: boolean;
  readonly server?: string;
}

/** Ends with exit code 1 where a file could not be read; pictures and the like are only told of. */
export async function addToCorpus(
  named: readonly string[],
  { name, json = false, server }: Wishes,
): Promise<void> {
  const { files, failed } = await filesBelow(named);
  const called = name ?? (await nameFor(named));
  if (files.length === 0) {
    for (const one of failed) noticeFailed(one);
    throw new CommandFailure(`There is no file in ${named.join(', ')} that can be read.`);
  }
  const progress = !json && isTerminal(process.stderr) ? startProgress() : noProgress;
  const took = await untilInterrupted((stop) =>
    withService(
      server,
      async (client) => {
        const chosen = await corpusCalled(client, called);
        const added = await addFiles(client, chosen, files, { progress, stop }).finally(progress.hide);
        const data = await whole(client, chosen, progress, stop).finally(progress.hide);
        return {
          ...added,
          failed: [...failed, ...added.failed],
          corpus: data,
          words: await whyWordsAlone(client, data),
        };
      },
      patience,
    ),
  );
  if (took === null) return;
  const { corpus, ...result } = took;
  if (json) printJson({ corpus, ...withoutWords(result) });
  else tell(corpus, result, server);
  const broken = result.failed.filter(({ code }) => code !== textless);
  if (broken.length > 0) throw new CommandFailure(`${counted(broken.length, 'file')} could not be taken in.`);
}

/** Null where a signal came before the end: the exit code says which, and what was not taken in yet is taken back. */
async function untilInterrupted<Result>(act: (stop: AbortSignal) => Promise<Result>): Promise<Result | null> {
  const stop = new AbortController();
  const interrupts = catchInterrupts(() => stop.abort());
  try {
    return await act(stop.signal);
  } catch (error) {
    const code = interrupts.exitCode();
    if (code === null) throw error;
    notice('Stopped. The same command goes on with what is missing.');
    process.exitCode = code;
    return null;
  } finally {
    interrupts.release();
  }
}

/** Files of which no text can be read, as pictures. */
const textless = 'unsupported_type';

/** By its name, or by its whole id. It is made where there is none. */
async function corpusCalled(client: ServiceClient, name: string): Promise<Corpus> {
  const corpora = await Array.fromAsync(corporaOf(client));
  const [corpus, ...others] = corpora.filter((one) => one.name === name);
  if (corpus && others.length > 0) throw severalAre(name, [corpus, ...others]);
  const known = corpus ?? corpora.find(({ id }) => id === name);
  if (known) return known;
  return (await client.POST('/api/v1/corpora', { body: { name }, params: { header: keyed() } })).data;
}

/** What was taken in before there was a model is embedded now, too; in a command nothing would do so later. */
async function whole(
  client: ServiceClient,
  { id }: Corpus,
  progress: Progress,
  stop: AbortSignal,
): Promise<Corpus> {
  const params = { path: { corpus_id: id } };
  const call = { params, signal: stop };
  const read = async () => (await client.GET('/api/v1/corpora/{corpus_id}', call)).data;
  let corpus = await read();
  if (!corpus.stale) return corpus;
  await client.POST('/api/v1/corpora/{corpus_id}/reindex', call);
  for (const end = performance.now() + longestWaitMs; corpus.stale && performance.now() < end; ) {
    progress.show('Embedding what was there before');
    await sleep(lookMs, undefined, { signal: stop });
    corpus = await read();
  }
  return corpus;
}

/** Many files are many requests: where they are more than the server takes in a minute, the next minute is waited for. */
const patience = { maxDelayMs: 90_000 };

const lookMs = 500;
const longestWaitMs = 600_000;

/** Null where all of the corpus is found by its meaning, too. */
async function whyWordsAlone(client: ServiceClient, { embedder, stale }: Corpus): Promise<string | null> {
  if (embedder === null)
    return `The documents are found by their words alone. ${(await embedderFault(client)) ?? 'The server has no embedder, or has not come to them yet.'}`;
  if (!stale) return null;
  return `Not all of the documents are embedded yet. ${(await embedderFault(client)) ?? 'The same command waits for them again.'}`;
}

/** Only the operator of a server may know it; null where nothing is known of one. */
async function embedderFault(client: ServiceClient): Promise<string | null> {
  try {
    const { data } = await client.GET('/api/v1/settings/embedder');
    return data.reason ?? data.corpora.error;
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return null;
    throw error;
  }
}

type Told = Added & { readonly words: string | null };

function withoutWords({ words: _, ...rest }: Told): Added {
  return rest;
}

function tell(
  { name, stats }: Corpus,
  { added, unchanged, failed, words }: Told,
  server: string | undefined,
): void {
  for (const one of failed) noticeFailed(one);
  const news = [
    `${added.length} read now`,
    ...(unchanged.length > 0 ? [`${unchanged.length} unchanged`] : []),
  ];
  print(
    `${printable(name)}: ${counted(stats.documents, 'document')}, ${counted(stats.chunks, 'passage')} (${news.join(', ')})`,
  );
  if (words !== null) notice(words);
  if (!isTerminal(process.stderr)) return;
  notice(`Ask: ${nextCommand('run', server, `--corpus ${asTyped(name)} "…"`)}`);
}

function noticeFailed({ file, message, code }: FailedFile): void {
  notice(`${file}: ${code === textless ? 'left out' : 'failed'}. ${message}`);
}
