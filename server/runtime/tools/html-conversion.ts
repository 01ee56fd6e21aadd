// Has a thread convert a page, and ends the thread when it takes too long or the run is interrupted.
import type { Worker } from 'node:worker_threads';
import { createThreads, type ThreadAsker } from './kept-threads.ts';
import { ToolInputError } from './tool.ts';

/** A page, and what to make of it. */
export interface HtmlPage {
  readonly html: string;
  /** Where it came from; relative links start there. */
  readonly base: string;
  readonly format: 'markdown' | 'text';
}

/** What the thread posts. */
export type Converted = { readonly text: string } | { readonly failed: string };

/** Ordinary pages take some tens of milliseconds. */
const longestMs = 10_000;

const threads = createThreads({
  program: new URL('./html-thread.ts', import.meta.url),
  doing: 'reads pages',
  maxHeapMb: 256,
});

/** How many pages are converted in this process, and how many threads are kept for the next ones. */
export const conversionCounts = threads.counts;

/** How many pages wait for a thread in this process, and how many may. */
export const conversionQueue = threads.queue;

/** Throws ToolInputError for a page that cannot be converted in time. */
export async function convertHtml(
  page: HtmlPage,
  asker: ThreadAsker,
  timeoutMs = longestMs,
): Promise<string> {
  const converted = await threads.use(asker, async (thread) => {
    const result = await convertOn(thread, page, timeoutMs, asker.signal);
    return { result, reusable: 'text' in result };
  });
  if ('text' in converted) return converted.text;
  throw new ToolInputError(
    `The page at ${page.base} could not be converted: ${converted.failed}. Ask for it with the format html.`,
  );
}

/** The listeners are taken off again: the thread goes on to the next page. */
async function convertOn(
  thread: Worker,
  page: HtmlPage,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Converted> {
  // The run may have been interrupted while it waited for its thread.
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Converted>();
  const timer = setTimeout(() => resolve({ failed: 'it took too long' }), timeoutMs);
  const onAbort = () => reject(signal.reason);
  const onError = (error: NodeJS.ErrnoException) =>
    error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      ? resolve({ failed: 'it needed too much memory' })
      : reject(error);
  signal.addEventListener('abort', onAbort, { once: true });
  thread.on('message', resolve).on('error', onError);
  thread.postMessage(page);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    thread.off('message', resolve).off('error', onError);
  }
}
