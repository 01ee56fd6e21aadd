/** Brings files into a corpus: what is new or has changed is uploaded and read, and takes the place of what was there. */
import { constants, openAsBlob, rmSync } from 'node:fs';
import { copyFile, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { Corpus, IngestionItem, IngestionJobWithItems } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { keyed } from '../lost-answers.ts';
import type { Progress } from '../run/progress.ts';
import {
  type FileMarks,
  forgetDocument,
  forgetFile,
  forgetFiles,
  type KnownFile,
  knownFiles,
  marksOf,
} from './known-files.ts';
import { type FailedFile, hashOf, type LocalFile, unreadable } from './local-files.ts';

/** What became of the files. */
export interface Added {
  /** Read now, for the first time or anew. */
  readonly added: readonly string[];
  /** The same as the last time. */
  readonly unchanged: readonly string[];
  readonly failed: readonly FailedFile[];
}

/** A file on its way. */
interface Upload {
  readonly place: string;
  readonly fileId: string;
  /** Whether it was uploaded by this command. */
  readonly isNew: boolean;
  /** What it takes the place of, once it can be found. */
  readonly before: readonly KnownFile[];
}

/** As many as one job may have. */
const mostOfAJob = 500;
const lookMs = 300;
/** What is nearly there when it is to stop becomes known by its id: without that nobody could take it back. */
const graceMs = 5000;

/** Rejects where `stop` is aborted: what was uploaded by then, and is not being read yet, is taken back. */
export async function addFiles(
  client: ServiceClient,
  corpus: Corpus,
  files: readonly LocalFile[],
  { progress, stop }: { readonly progress: Progress; readonly stop: AbortSignal },
): Promise<Added> {
  const knownOf = await knownFiles(client, corpus, stop);
  const [added, unchanged, failed]: [string[], string[], FailedFile[]] = [[], [], []];
  const uploads: Upload[] = [];
  let begun = 0;
  try {
    for (const [index, file] of files.entries()) {
      stop.throwIfAborted();
      progress.show(`Uploading ${index + 1} of ${files.length}`);
      const brought = await bring(client, corpus, file, knownOf, stop);
      if (brought === null) unchanged.push(file.place);
      else if ('code' in brought) failed.push(brought);
      else uploads.push(brought);
    }
    while (begun < uploads.length) {
      stop.throwIfAborted();
      const at = begun;
      const part = uploads.slice(at, at + mostOfAJob);
      const job = await withGrace(stop, (signal) => begin(client, corpus, part, signal));
      begun += part.length;
      const ended = await follow(client, job, part, stop, (done) =>
        progress.show(`Reading ${at + done} of ${uploads.length}`),
      );
      for (const [one, { error }] of ended)
        if (error) failed.push({ file: one.place, ...error });
        else {
          await forget(client, one.before);
          added.push(one.place);
        }
    }
  } catch (error) {
    progress.hide();
    await takeBack(client, uploads.slice(begun));
    throw error;
  }
  return { added, unchanged, failed };
}

/** Uploads a file unless its bytes are there; null where its document is there, too. */
async function bring(
  client: ServiceClient,
  corpus: Corpus,
  file: LocalFile,
  knownOf: (file: LocalFile) => readonly KnownFile[],
  stop: AbortSignal,
): Promise<Upload | FailedFile | null> {
  const { path, place } = file;
  const marks = marksOf(file);
  const before = knownOf(file);
  const sha256 = await hashOf(path, stop).catch((error: unknown) => unreadable(place, error));
  stop.throwIfAborted();
  if (typeof sha256 !== 'string') return sha256;
  const same = before.find((one) => one.file.sha256 === sha256);
  if (same?.document.status === 'ready') {
    // A command that was stopped before this has left what it took the place of.
    await forget(client, without(before, same));
    return null;
  }
  if (same) return { place, fileId: same.file.id, isNew: false, before: without(before, same) };
  const send = (blob: Blob, signal: AbortSignal) =>
    upload(client, corpus, blob, { filename: basename(path), metadata: marks }, signal);
  return await withCopy(path, (blob) => withGrace(stop, (signal) => send(blob, signal))).then(
    (fileId) => ({ place, fileId, isNew: true, before }),
    (error: unknown) => (isOfFiles(error) ? unreadable(place, error) : refused(file, error)),
  );
}

/** A file that is written to while it is sent would break the sending off, and Node's process with it. */
async function withCopy<Result>(path: string, send: (bytes: Blob) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), 'service-upload-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  // A second signal ends the command while it is sent.
  process.once('exit', remove);
  try {
    const copy = join(folder, 'copy');
    await copyFile(path, copy, constants.COPYFILE_FICLONE);
    return await send(await openAsBlob(copy));
  } finally {
    process.off('exit', remove);
    remove();
  }
}

/** Sends something whose answer is worth a short wait, though all is to stop. */
async function withGrace<Result>(
  stop: AbortSignal,
  send: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onStop = () => {
    timer = setTimeout(() => late.abort(stop.reason), graceMs);
  };
  stop.addEventListener('abort', onStop);
  // While the copy was made, say.
  if (stop.aborted) onStop();
  try {
    return await send(late.signal);
  } finally {
    stop.removeEventListener('abort', onStop);
    clearTimeout(timer);
  }
}

function isOfFiles(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && error.syscall === 'copyfile';
}

function without(known: readonly KnownFile[], one: KnownFile): KnownFile[] {
  return known.filter((other) => other !== one);
}

async function upload(
  client: ServiceClient,
  { workspace_id }: Corpus,
  blob: Blob,
  { filename, metadata }: { readonly filename: string; readonly metadata: FileMarks },
  signal: AbortSignal,
): Promise<string> {
  const body = { workspace_id, filename, purpose: 'knowledge' as const, metadata, file: filename };
  const bodySerializer = (sent: Record<string, unknown>) => formOf(sent, blob);
  // The same file, where the answer is lost and it is sent again.
  const params = { header: keyed() };
  const { data } = await client.POST('/api/v1/files', { params, body, bodySerializer, signal });
  return data.id;
}

/** The file comes last, as the operation wants it. */
function formOf({ file: _, metadata, ...words }: Record<string, unknown>, bytes: Blob): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(words)) form.append(name, String(value));
  form.append('metadata', JSON.stringify(metadata));
  form.append('file', bytes, String(words.filename));
  return form;
}

/** Whatever else went wrong ends the command: it would go wrong with each file. */
function refused({ place }: LocalFile, error: unknown): FailedFile {
  if (!(error instanceof ServiceError) || error.status >= 500 || ofAllFiles.has(error.status)) throw error;
  return { file: place, code: error.code ?? String(error.status), message: error.detail };
}

/** Who asks, what they may do, and how much of it. */
const ofAllFiles = new Set([401, 403, 429]);

async function begin(
  client: ServiceClient,
  corpus: Corpus,
  uploads: readonly Upload[],
  signal: AbortSignal,
): Promise<IngestionJobWithItems> {
  const params = { path: { corpus_id: corpus.id }, header: keyed() };
  const body = { file_ids: uploads.map(({ fileId }) => fileId) };
  return (await client.POST('/api/v1/corpora/{corpus_id}/documents', { params, body, signal })).data;
}

/** Waits for the end of a job: each file with what became of its document. */
async function follow(
  client: ServiceClient,
  begun: IngestionJobWithItems,
  uploads: readonly Upload[],
  stop: AbortSignal,
  tell: (done: number) => void,
): Promise<[Upload, IngestionItem][]> {
  let job = begun;
  // Later, those that somebody has deleted are left out.
  const documents = job.items.map(({ document_id }) => document_id);
  while (job.ended_at === null) {
    tell(job.progress.completed + job.progress.failed);
    await sleep(lookMs, undefined, { signal: stop });
    job = await read(client, job, stop);
  }
  const items = new Map(job.items.map((item) => [item.document_id, item]));
  return uploads.flatMap((one, index) => {
    const item = items.get(documents[index] ?? '');
    return item ? [[one, item]] : [];
  });
}

async function read(client: ServiceClient, { corpus_id, id }: IngestionJobWithItems, signal: AbortSignal) {
  const path = { corpus_id, ingestion_id: id };
  const { data } = await client.GET('/api/v1/corpora/{corpus_id}/ingestion-jobs/{ingestion_id}', {
    params: { path },
    signal,
  });
  return data;
}

async function forget(client: ServiceClient, known: readonly KnownFile[]): Promise<void> {
  for (const { document, file } of known) {
    await forgetDocument(client, document);
    await forgetFile(client, file.id);
  }
}

/** Deletes what was uploaded and has no document: nobody would find it, and nothing would ever delete it. */
async function takeBack(client: ServiceClient, uploads: readonly Upload[]): Promise<void> {
  await forgetFiles(
    client,
    uploads.filter(({ isNew }) => isNew).map(({ fileId }) => fileId),
  );
}
