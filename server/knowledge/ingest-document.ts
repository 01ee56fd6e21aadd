/** Takes one document in: its bytes are read, cut, embedded and staged, and then shown in one transaction. */
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import type { Chunk } from './chunk.ts';
import { codePointsOf } from './chunking/positions.ts';
import { embedTexts } from './embed-texts.ts';
import { type Embedder, type EmbedderAtHand, embeddedText } from './embedder.ts';
import type { IngestedItem, IngestionRecords, KeptTexts, StagedChunks } from './ingestion-ports.ts';
import { openSource, PassingFailure, type SourceBytes, type SourceOptions } from './ingestion-source.ts';
import { ParseFailure } from './parsing/parse-failure.ts';
import { parserOf } from './parsing/parse-names.ts';
import type { ParsedDocument } from './parsing/parsed-document.ts';
import type { Parsers } from './parsing/parsers.ts';
import { isPassing } from './patience.ts';
import { patientEmbedder } from './patient-embedder.ts';

export interface IngestDocumentOptions<Item extends IngestedItem> extends SourceOptions {
  readonly records: Pick<IngestionRecords<Item>, 'vectorsOf' | 'reach' | 'publish'>;
  readonly texts: KeptTexts;
  readonly chunks: StagedChunks;
  readonly parsers: Pick<Parsers, 'parse' | 'chunk'>;
  readonly currentEmbedder: (item: Item) => Promise<EmbedderAtHand>;
  readonly log: Log;
}

interface ReadDocument {
  readonly textId: string;
  readonly document: ParsedDocument;
  readonly chunks: readonly Chunk[];
}

/**
 * Whatever stops it half-way leaves the document as searches saw it before: what it has staged bears a generation of its
 * own, and the text that it has kept is found by the next attempt. Throws `ParseFailure`, and what the records throw.
 */
export async function ingestDocument<Item extends IngestedItem>(
  item: Item,
  options: IngestDocumentOptions<Item>,
  signal: AbortSignal,
): Promise<void> {
  const source = await openSource(item, options, signal);
  await options.records.reach(item, 'parse');
  const { textId, document, chunks } = await read(item, source, options, signal);
  await options.records.reach(item, 'embed');
  const embedder = await stage(item, chunks, options, signal);
  await options.records.reach(item, 'publish');
  await options.records
    .publish(item, {
      textId,
      mediaType: document.mediaType,
      bytes: source.size,
      sha256: source.sha256,
      characters: codePointsOf(document.text),
      chunks: chunks.length,
      embedder,
    })
    .catch(refuseUsedUp);
}

/** What is used up does not come back in half a minute. */
function refuseUsedUp(error: unknown): never {
  if (error instanceof Problem && error.code === 'quota_exceeded')
    throw new ParseFailure('quota_exceeded', error.message, error);
  throw error;
}

/** A storage that is away comes back. */
function refuseForNow(error: unknown): never {
  if (error instanceof Problem && error.code === 'storage_unavailable')
    throw new PassingFailure('storage_unavailable', error.message, error);
  throw error;
}

async function read<Item extends IngestedItem>(
  item: Item,
  source: SourceBytes,
  { records, texts, parsers }: IngestDocumentOptions<Item>,
  signal: AbortSignal,
): Promise<ReadDocument> {
  const bytes = { organizationId: item.organizationId, sha256: source.sha256, parser: parserOf(source) };
  const keptId = await texts.find(bytes);
  const kept = keptId && (await texts.read<ParsedDocument>(keptId));
  if (kept) {
    await records.reach(item, 'chunk');
    const chunks = await parsers.chunk(item.organizationId, kept, item.chunking, signal);
    return { textId: keptId, document: kept, chunks };
  }
  const { document, chunks } = await parsers
    .parse(item.organizationId, source.read(), source, item.chunking, signal)
    .catch(refuseForNow);
  const textId = await texts.keep(bytes, document, codePointsOf(document.text));
  return { textId, document, chunks };
}

/** So many passages become vectors, and rows, together. */
const batch = 32;

/**
 * Answers with what made the vectors; null where not all have one. Those that are made are paid for: where the embedder is
 * away they are kept, and the background makes what is missing.
 */
async function stage<Item extends IngestedItem>(
  item: Item,
  chunks: readonly Chunk[],
  options: IngestDocumentOptions<Item>,
  signal: AbortSignal,
): Promise<string | null> {
  let embedder = await embedderFor(item, options);
  const { corpusId, documentId, generation } = item;
  for (let at = 0; at < chunks.length; at += batch) {
    signal.throwIfAborted();
    const part = chunks.slice(at, at + batch);
    const vectors = embedder && (await vectorsOf(embedder, part, item, options, signal));
    if (!vectors) embedder = null;
    await options.chunks.stage(item, { corpusId, documentId, generation }, part, vectors);
  }
  return embedder?.identity ?? null;
}

/**
 * Vectors of two embedders cannot be compared: a corpus that has those of another gets none of today's until it is
 * indexed anew, and its new documents are found by their words.
 */
async function embedderFor<Item extends IngestedItem>(
  item: Item,
  { records, currentEmbedder }: IngestDocumentOptions<Item>,
): Promise<Embedder | null> {
  const { embedder } = await currentEmbedder(item);
  if (!embedder) return null;
  const present = await records.vectorsOf(item);
  return present.empty || present.embedder === embedder.identity ? patientEmbedder(embedder) : null;
}

/** Null where the embedder is away. */
async function vectorsOf<Item extends IngestedItem>(
  embedder: Embedder,
  chunks: readonly Chunk[],
  item: Item,
  options: IngestDocumentOptions<Item>,
  signal: AbortSignal,
): Promise<Parameters<StagedChunks['stage']>[3]> {
  const { documentId: document } = item;
  const { log } = options;
  // What another attempt, or the reading before, has had made is paid for.
  const known = await options.chunks.embedded(item, chunks, embedder.identity);
  const fresh = chunks.filter((_, at) => !known[at]);
  try {
    const made = await embedTexts(embedder, fresh.map(embeddedText), signal);
    const vectors = chunks.map((_, at) => known[at] ?? made.shift() ?? null);
    const passages = vectors.filter((vector) => vector === null).length;
    if (passages > 0)
      log.warn({ document, passages }, 'the embedder refuses passages: they are found by their words alone');
    return { embedder: embedder.identity, vectors };
  } catch (error) {
    signal.throwIfAborted();
    if (isPassing(error)) {
      log.warn({ err: error, document }, 'the embedder is away: passages are embedded in the background');
      return null;
    }
    if (error instanceof Problem && error.code === 'quota_exceeded') refuseUsedUp(error);
    throw new PassingFailure(
      'embedder_failed',
      'The embedder did not answer as it should; try again.',
      error,
    );
  }
}
