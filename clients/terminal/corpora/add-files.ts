/** Brings files into a corpus: what is new or has changed is uploaded and read, and takes the place of what was there. */
import { openAsBlob } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { Corpus, IngestionItem, IngestionJobWithItems } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { forgetFile, type KnownFile, knownFiles, placeMember } from './known-files.ts';
import { hashOf, type LocalFile } from './local-files.ts';

/** What became of the files. */
export interface Added {
  /** Read now, for the first time or anew. */
  readonly added: readonly string[];
  /** The same as the last time. */
  readonly unchanged: readonly string[];
  readonly failed: readonly FailedFile[];
}

export interface FailedFile {
  readonly file: string;
  readonly code: string;
  readonly message: string;
}

/** A file on its way. */
interface Upload {
  readonly place: string;
  readonly fileId: string;
  /** What it takes the place of, once it can be found. */
  readonly before: readonly KnownFile[];
}

/** As many as one job may have. */
const mostOfAJob = 500;
const lookMs = 300;
/** As much as a value of metadata may hold. */
const longestPlace = 500;

/** @param tell - Told how far it has come. */
export async function addFiles(
  client: ServiceClient,
  corpus: Corpus,
  files: readonly LocalFile[],
  tell: (words: string) => void,
): Promise<Added> {
  const known = await knownFiles(client, corpus);
  const unchanged: string[] = [];
  const failed: FailedFile[] = [];
  const uploads: Upload[] = [];
  for (const [index, file] of files.entries()) {
    tell(`Uploading ${index + 1} of ${files.length}`);
    const place = file.place.slice(-longestPlace);
    const before = known.get(place) ?? [];
    const hash = await hashOf(file.path);
    const same = before.find((one) => one.file.sha256 === hash);
    if (same?.document.status === 'ready') unchanged.push(file.place);
    else if (same) uploads.push({ place: file.place, fileId: same.file.id, before: without(before, same) });
    else
      await upload(client, corpus, { ...file, place }).then(
        (fileId) => uploads.push({ place: file.place, fileId, before }),
        (error: unknown) => failed.push(refused(file, error)),
      );
  }
  const added: string[] = [];
  for (let at = 0; at < uploads.length; at += mostOfAJob) {
    const part = uploads.slice(at, at + mostOfAJob);
    const ended = await takeIn(client, corpus, part, (done) =>
      tell(`Reading ${at + done} of ${uploads.length}`),
    );
    for (const [one, { error }] of ended)
      if (error) failed.push({ file: one.place, ...error });
      else {
        await forget(client, one.before);
        added.push(one.place);
      }
  }
  return { added, unchanged, failed };
}

function without(known: readonly KnownFile[], one: KnownFile): KnownFile[] {
  return known.filter((other) => other !== one);
}

async function upload(client: ServiceClient, corpus: Corpus, { path, place }: LocalFile): Promise<string> {
  const body = {
    workspace_id: corpus.workspace_id,
    filename: basename(path),
    purpose: 'knowledge' as const,
    metadata: { [placeMember]: place },
    file: path,
  };
  const blob = await openAsBlob(path);
  const { data } = await client.POST('/api/v1/files', { body, bodySerializer: (sent) => formOf(sent, blob) });
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
  if (!(error instanceof ServiceError) || error.status >= 500 || error.status === 401) throw error;
  return { file: place, code: error.code ?? String(error.status), message: error.detail };
}

/** One job, followed to its end: each file with what became of its document. */
async function takeIn(
  client: ServiceClient,
  corpus: Corpus,
  uploads: readonly Upload[],
  tell: (done: number) => void,
): Promise<[Upload, IngestionItem][]> {
  const path = { corpus_id: corpus.id };
  const body = { file_ids: uploads.map(({ fileId }) => fileId) };
  let { data: job } = await client.POST('/api/v1/corpora/{corpus_id}/documents', { params: { path }, body });
  // Later, those that somebody has deleted are left out.
  const documents = job.items.map(({ document_id }) => document_id);
  while (job.ended_at === null) {
    tell(job.progress.completed + job.progress.failed);
    await sleep(lookMs);
    job = await read(client, job);
  }
  const items = new Map(job.items.map((item) => [item.document_id, item]));
  return uploads.flatMap((one, index) => {
    const item = items.get(documents[index] ?? '');
    return item ? [[one, item]] : [];
  });
}

async function read(client: ServiceClient, { corpus_id, id }: IngestionJobWithItems) {
  const path = { corpus_id, ingestion_id: id };
  const { data } = await client.GET('/api/v1/corpora/{corpus_id}/ingestion-jobs/{ingestion_id}', {
    params: { path },
  });
  return data;
}

async function forget(client: ServiceClient, known: readonly KnownFile[]): Promise<void> {
  for (const { document, file } of known) {
    const path = { corpus_id: document.corpus_id, document_id: document.id };
    await client.DELETE('/api/v1/corpora/{corpus_id}/documents/{document_id}', { params: { path } });
    await forgetFile(client, file.id);
  }
}
