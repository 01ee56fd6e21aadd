/** The embedder that needs no key and no network: a small model on this machine, in a thread that lives while it is needed. */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { Problem } from '../../problem.ts';
import type { Embedder } from '../embedder.ts';
import type { EmbeddingAnswer, EmbeddingFiles, EmbeddingRequest } from './embedding-job.ts';

export interface EmbeddedEmbedder extends Embedder {
  /** Whether the model is in memory. */
  loaded(): boolean;
  /** How many calls are not answered yet. */
  waiting(): number;
  close(): Promise<void>;
}

export interface EmbeddedOptions {
  readonly identity: string;
  readonly dimensions: number;
  readonly files: Pick<EmbeddingFiles, 'model' | 'tokenizer'>;
  /** How long the model stays in memory that nobody asks. */
  readonly idleMs?: number;
  readonly program?: URL;
}

interface Call {
  readonly texts: readonly string[];
  readonly settle: PromiseWithResolvers<Float32Array[]>;
  /** How many threads have ended while they worked on it. */
  lost: number;
}

/** Half of the processors are left to those who do not embed; more than four gain little for one text. */
const processors = Math.min(4, Math.max(1, Math.floor(availableParallelism() / 2)));

/** A thread that ends is started again for the same texts, but for those that have ended two. */
const mostLost = 2;

const defaultIdleMs = 60_000;

/** So many calls may be unanswered; one more is refused. Searches then find by words, and what is ingested comes again. */
export const mostWaitingCalls = 500;

export function createEmbeddedEmbedder(options: EmbeddedOptions): EmbeddedEmbedder {
  const { idleMs = defaultIdleMs, program = new URL('./embedding-thread.ts', import.meta.url) } = options;
  const calls = new Map<number, Call>();
  let lastId = 0;
  let thread: Worker | null = null;
  let idle: NodeJS.Timeout | undefined;
  let closed = false;

  const post = (to: Worker, request: EmbeddingRequest): void => to.postMessage(request);

  const start = (): Worker => {
    const workerData: EmbeddingFiles = { ...options.files, processors };
    // No environment and no flags of the server: the thread needs neither.
    const started = new Worker(program, {
      env: {},
      execArgv: [],
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: 256 },
    });
    let fault: unknown = new Error('the thread that computes vectors ended');
    started.on('message', (answer: EmbeddingAnswer) => settle(answer));
    started.on('error', (error) => {
      fault = error;
    });
    started.once('exit', () => {
      if (thread !== started) return;
      thread = null;
      recover(fault);
    });
    return started;
  };

  const settle = (answer: EmbeddingAnswer): void => {
    const call = calls.get(answer.id);
    calls.delete(answer.id);
    if ('vectors' in answer) call?.settle.resolve([...answer.vectors]);
    else call?.settle.reject(new Error(`the text could not be embedded: ${answer.failure}`));
    rest();
  };

  /** What the thread had not answered goes to the next one. */
  const recover = (fault: unknown): void => {
    for (const [id, call] of calls) {
      call.lost += 1;
      if (call.lost < mostLost && !closed) continue;
      calls.delete(id);
      call.settle.reject(fault);
    }
    if (calls.size === 0) return;
    thread = start();
    for (const [id, { texts }] of calls) post(thread, { kind: 'embed', id, texts });
  };

  /** A process that has nothing else to do ends; one that goes on gets its memory back after a while. */
  const rest = (): void => {
    if (calls.size > 0 || !thread) return;
    thread.unref();
    clearTimeout(idle);
    idle = setTimeout(() => void end(), idleMs).unref();
  };

  const end = async (): Promise<void> => {
    clearTimeout(idle);
    if (!thread) return;
    const ending = thread;
    thread = null;
    const { promise, resolve } = Promise.withResolvers<void>();
    ending.once('exit', () => resolve());
    ending.ref();
    post(ending, { kind: 'close' });
    await promise;
  };

  const embed: Embedder['embed'] = async (texts, signal) => {
    signal.throwIfAborted();
    if (closed) throw new Error('the embedder is closed');
    if (texts.length === 0) return [];
    if (calls.size >= mostWaitingCalls)
      throw new Problem(
        'overloaded',
        'This server embeds as many texts as it can hold; try again in a moment.',
      );
    lastId += 1;
    const id = lastId;
    const call: Call = { texts, settle: Promise.withResolvers<Float32Array[]>(), lost: 0 };
    const cancel = () => {
      if (!calls.delete(id)) return;
      if (thread) post(thread, { kind: 'cancel', id });
      call.settle.reject(signal.reason);
      rest();
    };
    calls.set(id, call);
    signal.addEventListener('abort', cancel, { once: true });
    clearTimeout(idle);
    thread ??= start();
    thread.ref();
    post(thread, { kind: 'embed', id, texts });
    return await call.settle.promise.finally(() => signal.removeEventListener('abort', cancel));
  };

  return {
    identity: options.identity,
    dimensions: options.dimensions,
    embed,
    loaded: () => thread !== null,
    waiting: () => calls.size,
    async close() {
      closed = true;
      for (const { settle } of calls.values()) settle.reject(new Error('the embedder is closed'));
      calls.clear();
      await end();
    },
  };
}
