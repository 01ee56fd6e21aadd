/** The parts of ingestion alone, for a comparison: the same parsers and the same embedder, as many at a time; prints what it took. */
import { availableParallelism } from 'node:os';
import { type Embedder, embeddedText } from '../knowledge/embedder.ts';
import { createEmbedders, createParsers } from '../knowledge/knowledge.ts';
import { createLog } from '../log.ts';
import { readableFiles, type SampleFile, warmUpFiles } from '../test-sample-files.ts';
import { usageOf } from './process-tree.ts';

const [count = '100', modelsDirectory = ''] = process.argv.slice(2);

const none = async () => ({ chosen: null, batchSize: 1 });
const embedders = createEmbedders({
  ...{ modelsDirectory, chosen: none, known: none },
  open: () => Promise.reject(new Error('No provider is measured here.')),
});
const parsers = createParsers({
  processes: Math.max(1, availableParallelism() - 1),
  log: createLog('silent'),
});
const { signal } = new AbortController();
const chunking = { strategy: 'structure', size: 220, overlap: 30 } as const;

async function takeIn({ name, bytes }: SampleFile, embedder: Embedder | null): Promise<number> {
  const pieces = async function* () {
    yield bytes;
  };
  const { chunks } = await parsers.parse('bench', pieces(), { name, charset: null }, chunking, signal);
  await embedder?.embed(chunks.map(embeddedText), signal);
  return chunks.length;
}

/** As many lanes as the server has. */
async function takeAllIn(files: readonly SampleFile[], embedder: Embedder | null): Promise<number> {
  const left = [...files];
  let passages = 0;
  const lane = async (): Promise<void> => {
    for (let file = left.shift(); file; file = left.shift()) {
      const count = await takeIn(file, embedder);
      passages += count;
    }
  };
  await Promise.all(Array.from({ length: Math.max(2, availableParallelism()) }, lane));
  return passages;
}

const { embedder } = await embedders.current();
await takeAllIn(warmUpFiles(), embedder);
const before = usageOf(process.pid);
const startedAt = performance.now();
const passages = await takeAllIn(readableFiles(Number(count)), embedder);
const seconds = (performance.now() - startedAt) / 1000;
const { cpuMs, residentBytes } = usageOf(process.pid);
console.log(JSON.stringify({ passages, seconds, cpuMs: cpuMs - before.cpuMs, residentBytes }));
// The processes of parsers keep nothing alive that waits for their end.
const waiting = setInterval(() => undefined, 1000);
await parsers.close();
await embedders.close();
clearInterval(waiting);
