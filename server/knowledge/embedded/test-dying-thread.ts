// The thread that embeds, but that it dies of one text, as of a fault of the library.
import { parentPort } from 'node:worker_threads';
import './embedding-thread.ts';
import type { EmbeddingRequest } from './embedding-job.ts';

parentPort?.on('message', (request: EmbeddingRequest) => {
  if (request.kind === 'embed' && request.texts.includes('die')) process.exit(1);
});
