// Runs the conversion of a page in its thread, and ends the thread when it takes too long or the run is interrupted.
import { Worker } from 'node:worker_threads';
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

const maxHeapMb = 256;
/** Ordinary pages take some tens of milliseconds. */
const longestMs = 10_000;

/** Throws ToolInputError for a page that cannot be converted in time. */
export async function convertHtml(
  page: HtmlPage,
  signal: AbortSignal,
  timeoutMs = longestMs,
): Promise<string> {
  signal.throwIfAborted();
  // No environment and no flags of the server: the thread needs neither.
  const thread = new Worker(new URL('./html-thread.ts', import.meta.url), {
    workerData: page,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
  });
  const { promise, resolve, reject } = Promise.withResolvers<Converted>();
  const timer = setTimeout(() => resolve({ failed: 'it took too long' }), timeoutMs);
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  thread.on('message', resolve);
  thread.on('error', (error: NodeJS.ErrnoException) =>
    error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      ? resolve({ failed: 'it needed too much memory' })
      : reject(error),
  );
  try {
    const converted = await promise;
    if ('text' in converted) return converted.text;
    throw new ToolInputError(
      `The page at ${page.base} could not be converted: ${converted.failed}. Ask for it with the format html.`,
    );
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    await thread.terminate();
  }
}
