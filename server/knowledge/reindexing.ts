/** Embeds corpora anew in the background when the embedder has become another: one after the other, and never twice at once. */
import { randomUUID } from 'node:crypto';
import type { Log } from '../log.ts';
import { embedTexts } from './embed-texts.ts';
import { type Embedder, type EmbedderAtHand, type EmbeddingPayer, embeddedText } from './embedder.ts';
import { patientEmbedder } from './patient-embedder.ts';

/** A corpus that this process is at; `Spender` is who pays, as the store has it. */
export type TakenCorpus<Spender> = {
  readonly corpusId: string;
  readonly identity: string;
  readonly worker: string;
  readonly spender: Spender;
};

type Passage = { readonly number: number; readonly headings: readonly string[]; readonly text: string };

/** What it needs of the store. */
export type ReindexQueue<Spender> = {
  /** Asks for every corpus whose passages another embedder has embedded, or none. */
  queue(identity: string): Promise<number>;
  take(worker: string, except: readonly string[]): Promise<TakenCorpus<Spender> | null>;
  renew(taken: TakenCorpus<Spender>): Promise<boolean>;
  bare(taken: TakenCorpus<Spender>, after: number, limit: number): Promise<Passage[]>;
  write(
    taken: TakenCorpus<Spender>,
    passages: readonly { readonly number: number; readonly vector: Float32Array | null }[],
  ): Promise<boolean>;
  finish(taken: TakenCorpus<Spender>): Promise<boolean>;
  release(taken: TakenCorpus<Spender>, why?: string): Promise<void>;
  fail(taken: TakenCorpus<Spender>, error: string, pauseMs: (failures: number) => number): Promise<void>;
  sweep(): Promise<number>;
};

export type ReindexingOptions<Spender> = {
  readonly queue: ReindexQueue<Spender>;
  named(identity: string, payer: EmbeddingPayer): Promise<EmbedderAtHand>;
  payerOf(spender: Spender): EmbeddingPayer;
  /** What embeds now; null as long as nothing can, as before the model of this machine is installed. */
  ready(): Promise<string | null>;
  readonly log: Log;
  /** How often somebody looks whether there is something to do. */
  readonly pollMs?: number;
  /** How often somebody looks whether an embedder is there by now for what was taken in without one. */
  readonly lookMs?: number;
};

export type Reindexing = {
  /** Somebody asks for it: looks at once, also whether an embedder that was not here has come. */
  wake(): void;
  close(): Promise<void>;
};

/** Some seconds of work on this machine, and one or two calls of a provider: what a killed process has done for nothing. */
const passagesAtOnce = 64;

/** Much shorter than the lease. */
const renewMs = 4000;

const mostPauseMs = 600_000;

export function startReindexing<Spender>(options: ReindexingOptions<Spender>): Reindexing {
  const { queue, log, pollMs = 5000, lookMs = 60_000 } = options;
  const worker = randomUUID();
  const closing = new AbortController();
  let working: Promise<void> | null = null;
  let woken = false;
  let asked = false;

  let lookedAt: number | null = null;
  /** What cannot be asked here, until somebody looks again: another process may have what this one lacks. */
  const absent = new Set<string>();

  const next = async () => (closing.signal.aborted ? null : await queue.take(worker, [...absent]));

  const queueStale = async (): Promise<void> => {
    if (lookedAt !== null && performance.now() - lookedAt < lookMs) return;
    lookedAt = performance.now();
    absent.clear();
    const identity = await options.ready();
    if (identity !== null) await queue.queue(identity);
  };

  const work = async (): Promise<void> => {
    do {
      woken = false;
      if (asked) absent.clear();
      asked = false;
      await queueStale();
      for (let taken = await next(); taken; taken = await next())
        if ((await reindex(options, taken, closing.signal)) === 'absent') absent.add(taken.identity);
    } while (woken && !closing.signal.aborted);
  };

  const look = (): void => {
    woken = true;
    if (working || closing.signal.aborted) return;
    working = work()
      .catch((error: unknown) => {
        if (!closing.signal.aborted)
          log.error({ err: error }, 'corpora could not be embedded anew; it is tried again');
      })
      .finally(() => {
        working = null;
      });
  };

  const timer = setInterval(look, pollMs).unref();
  return {
    wake() {
      asked = true;
      look();
    },
    async close() {
      clearInterval(timer);
      closing.abort();
      await working;
    },
  };
}

/** Whether its embedder can be asked here. */
async function reindex<Spender>(
  options: ReindexingOptions<Spender>,
  taken: TakenCorpus<Spender>,
  closing: AbortSignal,
): Promise<'present' | 'absent'> {
  const { queue, named, payerOf, log } = options;
  const lost = new AbortController();
  const signal = AbortSignal.any([closing, lost.signal]);
  const timer = setInterval(() => {
    queue.renew(taken).then(
      (held) => held || lost.abort(),
      // Whatever kept the database from it, the next one comes before the lease has ended.
      (error: unknown) => log.debug({ err: error }, 'a lease could not be renewed'),
    );
  }, renewMs);
  try {
    const atHand = await named(taken.identity, payerOf(taken.spender));
    if (!atHand.embedder) {
      log.warn(
        { corpus: taken.corpusId, why: atHand.reason },
        'a corpus is left to a process that can embed it',
      );
      await queue.release(taken, atHand.reason);
      return 'absent';
    }
    if (!(await embedAll(options, atHand.embedder, taken, signal))) return 'present';
  } catch (error) {
    if (lost.signal.aborted) return 'present';
    if (closing.aborted) {
      // The next start goes on at once.
      await queue.release(taken);
      return 'present';
    }
    const reason = error instanceof Error ? error.message : String(error);
    log.error(
      { err: error, corpus: taken.corpusId },
      'a corpus could not be embedded anew; it is tried again',
    );
    await queue.fail(taken, reason, (failures) => Math.min(mostPauseMs, 5000 * 2 ** failures));
  } finally {
    clearInterval(timer);
  }
  await queue.sweep().catch((error: unknown) => {
    log.error({ err: error }, 'vectors that no search reads any more stay until the next corpus is embedded');
  });
  return 'present';
}

/** False where the corpus is somebody else's by now. */
async function embedAll<Spender>(
  { queue, log }: ReindexingOptions<Spender>,
  atHand: Embedder,
  taken: TakenCorpus<Spender>,
  signal: AbortSignal,
): Promise<boolean> {
  const embedder = patientEmbedder(atHand);
  for (let after = 0; ; ) {
    signal.throwIfAborted();
    const passages = await queue.bare(taken, after, passagesAtOnce);
    const last = passages.at(-1);
    if (last) {
      const vectors = await embedTexts(embedder, passages.map(embeddedText), signal);
      const written = passages.map(({ number }, at) => ({ number, vector: vectors[at] ?? null }));
      tellRefused(written, taken, log);
      if (!(await queue.write(taken, written))) return false;
      after = last.number;
      continue;
    }
    if (await queue.finish(taken)) return true;
    if (!(await queue.renew(taken))) return false;
    // Some have come meanwhile, and their numbers may be smaller.
    after = 0;
  }
}

function tellRefused(
  written: readonly { readonly vector: Float32Array | null }[],
  { corpusId }: Pick<TakenCorpus<unknown>, 'corpusId'>,
  log: Log,
): void {
  const passages = written.filter(({ vector }) => vector === null).length;
  if (passages > 0)
    log.warn(
      { corpus: corpusId, passages },
      'the embedder refuses passages: they are found by their words alone',
    );
}
