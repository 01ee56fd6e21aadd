// Computes vectors in a thread of its own, one text at a time and by turns among those who ask, so that a question never waits for a book.
import { setImmediate as turn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { Tokenizer } from '@anush008/tokenizers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { EmbeddingAnswer, EmbeddingFiles, EmbeddingRequest } from './embedding-job.ts';
import { mostTokens } from './minilm-graph.ts';

/** As much of a text as is looked at: its first 256 tokens are far shorter, and the rest would be read for nothing. */
const mostCharacters = 16_384;

interface Asked {
  readonly id: number;
  readonly texts: readonly string[];
  readonly vectors: Float32Array[];
}

const files = workerData as EmbeddingFiles; // what the embedder starts it with
const waiting: Asked[] = [];
let working = false;
let closing = false;

const session = await InferenceSession.create(files.model, {
  intraOpNumThreads: files.processors,
  interOpNumThreads: 1,
  // Texts differ in length, so that what one needed in memory says nothing about the next.
  enableMemPattern: false,
});
const tokenizer = Tokenizer.fromFile(files.tokenizer);
tokenizer.disablePadding();
tokenizer.setTruncation(mostTokens);

function post(answer: EmbeddingAnswer): void {
  parentPort?.postMessage(answer);
}

/** The first gives one text and goes to the end. */
async function work(): Promise<void> {
  if (working) return;
  working = true;
  for (let asked = waiting.shift(); asked; asked = waiting.shift()) {
    waiting.push(asked);
    await next(asked);
    // Lets in what was said meanwhile.
    await turn();
    if (asked.vectors.length < asked.texts.length || !forget(asked.id)) continue;
    post({ id: asked.id, vectors: asked.vectors });
  }
  working = false;
  if (closing) await close();
}

async function next(asked: Asked): Promise<void> {
  const text = asked.texts[asked.vectors.length];
  if (text === undefined) return;
  try {
    asked.vectors.push(await vectorOf(text));
  } catch (error) {
    forget(asked.id);
    post({ id: asked.id, failure: error instanceof Error ? error.message : String(error) });
  }
}

async function vectorOf(text: string): Promise<Float32Array> {
  const encoded = await tokenizer.encode(text.slice(0, mostCharacters).toWellFormed());
  const tokens = encoded.getIds();
  const input = new Tensor('int64', BigInt64Array.from(tokens, BigInt), [tokens.length]);
  const output = await session.run({ tokens: input });
  const data = output[session.outputNames[0] ?? '']?.data;
  if (!(data instanceof Float32Array)) throw new Error('the model answered with no vector');
  // Its own copy: what the model answers with is freed with the next text.
  return Float32Array.from(data);
}

/** Whether it was still wanted. */
function forget(id: number): boolean {
  const at = waiting.findIndex((asked) => asked.id === id);
  if (at >= 0) waiting.splice(at, 1);
  return at >= 0;
}

/** Ends in order: a thread that is ended in the middle of the library could take the process with it. */
async function close(): Promise<void> {
  await session.release();
  parentPort?.close();
}

parentPort?.on('message', (request: EmbeddingRequest) => {
  if (request.kind === 'embed') waiting.push({ id: request.id, texts: request.texts, vectors: [] });
  else if (request.kind === 'cancel') forget(request.id);
  else {
    closing = true;
    waiting.length = 0;
  }
  void work();
});
