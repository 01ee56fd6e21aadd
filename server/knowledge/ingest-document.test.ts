/** How one document is taken in: when its file is opened, and what becomes of it where its storage is away. */
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, expect, test } from 'vitest';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { Problem } from '../problem.ts';
import { diskStorage } from '../store/storage/disk.ts';
import { ingestDocument } from './ingest-document.ts';
import type { FoundFile, IngestedItem } from './ingestion-ports.ts';
import { PassingFailure } from './ingestion-source.ts';
import { createParsers } from './parsing/parsers.ts';

const parsers = createParsers({ processes: 1, log: createLog('silent') });
const folder = mkdtempSync(join(tmpdir(), 'service-ingest-'));
afterAll(async () => {
  await parsers.close();
  rmSync(folder, { recursive: true });
});

const item: IngestedItem = {
  ...{ jobId: 'job', organizationId: 'org', workspaceId: 'ws', corpusId: 'cor', documentId: 'doc' },
  ...{ generation: 1, attempts: 1, source: { kind: 'file', fileId: 'file' } },
  chunking: { strategy: 'structure', size: 220, overlap: 30 },
};

function takeIn(read: FoundFile['read'], signal: AbortSignal): Promise<void> {
  const options = {
    records: {
      vectorsOf: async () => ({ embedder: null, empty: true }),
      reach: async () => undefined,
      publish: async () => undefined,
    },
    texts: { find: async () => null, read: async () => null, keep: async () => 'text' },
    chunks: { embedded: async () => [], stage: async () => undefined },
    parsers,
    currentEmbedder: async () => ({ embedder: null, reason: 'There is none.' }),
    fetch,
    log: createLog('silent'),
    file: async () => ({ filename: 'a.txt', size: 12_000, sha256: 'sha', read }),
  };
  return ingestDocument(item, options, signal);
}

/** Keeps the one process that reads. The answer lets it go. */
function occupy(): () => Promise<void> {
  const stuck = new AbortController();
  async function* never(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('x');
    await new Promise((resolve) => stuck.signal.addEventListener('abort', resolve));
  }
  const held = parsers.parse('org', never(), { name: 'a.txt', charset: null }, null, stuck.signal);
  const gone = expect(held).rejects.toThrow('enough');
  return async () => {
    stuck.abort(new Error('enough'));
    await gone;
  };
}

test.skipIf(process.platform !== 'linux')(
  'a file is opened once there is a process that reads it, and one that is cancelled before is not',
  async () => {
    const storage = diskStorage(folder);
    const key = newId('storedObject');
    await storage.write(key, Readable.from([Buffer.from('An owl sits. '.repeat(1000))]));
    let opened = 0;
    const read = () => {
      opened += 1;
      return storage.read(key);
    };
    const free = occupy();
    for (let times = 0; times < 5; times += 1) {
      const cancelled = new AbortController();
      const taken = takeIn(read, cancelled.signal);
      setTimeout(() => cancelled.abort(new Error('cancelled')), 20);
      await expect(taken).rejects.toThrow('cancelled');
    }
    await expect.poll(() => openIn(folder)).toEqual([]);
    const waiting = takeIn(read, new AbortController().signal);
    await free();
    await waiting;
    expect(opened).toBe(1);
    await expect.poll(() => openIn(folder)).toEqual([]);
  },
);

function openIn(place: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${name}`);
      return path.startsWith(place) ? [path] : [];
    } catch {
      // Closed meanwhile.
      return [];
    }
  });
}

test('a document whose storage is away is tried again, and says that it was the storage', async () => {
  const away = () => new Problem('storage_unavailable', 'The storage does not answer.');
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('x');
    throw away();
  }
  for (const read of [() => Promise.reject(away()), async () => broken()]) {
    const failed = await takeIn(read, new AbortController().signal).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(PassingFailure);
    expect(failed).toMatchObject({ code: 'storage_unavailable', message: 'The storage does not answer.' });
  }
});
