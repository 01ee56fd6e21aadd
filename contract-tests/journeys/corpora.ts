/** Journeys of corpora: filled by jobs, searched, granted to others, and deleted. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/corpora/{corpus_id}';
const jobUrl = `${url}/ingestion-jobs/{ingestion_id}` as const;
const documentUrl = `${url}/documents/{document_id}` as const;

export function corpusJourneys(target: () => Target): void {
  test('a corpus is made, filled, searched, changed by who has read it, and deleted', async () => {
    const { client, liveOnly } = target();
    const made = await client.POST('/api/v1/corpora', { body: { name: 'Minutes' } });
    expect(made.response.status).toBe(201);
    expectShape('Corpus', made.data);
    const path = { corpus_id: example.corpus };
    await liveOnly(() => {
      path.corpus_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/corpora/${path.corpus_id}`);
    });
    const texts = [{ title: 'Holidays', text: '# Holidays\nEverybody has 30 days a year.\n' }];
    const added = await client.POST(`${url}/documents`, { params: { path }, body: { texts } });
    expect(added.response.status).toBe(202);
    expectShape('IngestionJobWithItems', added.data);
    const inCorpus = { ...path, ingestion_id: example.ingestion, document_id: example.document };
    await liveOnly(() => {
      inCorpus.ingestion_id = added.data.id;
      inCorpus.document_id = added.data.items[0]?.document_id ?? '';
    });
    await jobEnds(target(), inCorpus, 'completed');
    const { data: jobs } = await client.GET(`${url}/ingestion-jobs`, { params: { path } });
    expectShape('IngestionJobPage', jobs);
    const late = await refusal(
      client.POST(`${jobUrl}/cancel`, { params: { path: inCorpus }, ...preferring(409) }),
    );
    expect(late.status).toBe(409);

    const params = { path: inCorpus };
    const { data: chunks } = await client.GET(`${documentUrl}/chunks`, { params });
    expectShape('ChunkPage', chunks);
    const body = { query: 'How many holidays?', mode: 'keyword' } as const;
    const { data: found } = await client.POST(`${url}/search`, { params: { path }, body });
    expectShape('CorpusSearchAnswer', found);
    const { data: together } = await client.POST('/api/v1/corpora/search', {
      body: { ...body, corpus_ids: [path.corpus_id] },
    });
    expectShape('CorpusSearchAnswer', together);
    const rerank = { model: 'scripted:reader-1', candidates: 10 };
    const { data: reranked } = await client.POST(`${url}/search`, {
      params: { path },
      body: { ...body, rerank },
    });
    expectShape('CorpusSearchAnswer', reranked);
    await liveOnly(() => {
      // One of its three words.
      expect(reranked).toMatchObject({ notice: null, data: [{ ...found.data[0], score: 1 / 3 }] });
      expect(chunks.data.map(({ text }) => text).join('')).toContain('30 days');
      expect(found.data[0]).toMatchObject({ document_id: inCorpus.document_id, corpus_id: path.corpus_id });
      expect(together.data.map(({ chunk_id }) => chunk_id)).toEqual(
        found.data.map(({ chunk_id }) => chunk_id),
      );
    });

    const reindexed = await client.POST(`${url}/reindex`, { params: { path } });
    expect(reindexed.response.status).toBe(202);
    expectShape('Corpus', reindexed.data);
    const read = await client.GET(url, { params: { path } });
    expectShape('Corpus', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { description: 'How we work here, and why.' } };
    const changed = await client.PATCH(url, change);
    expectShape('Corpus', changed.data);
    expect(changed.data.description).toBe(change.body.description);
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const { data: page } = await client.GET('/api/v1/corpora', { params: { query: { q: 'minu' } } });
    expectShape('CorpusPage', page);
    expect(page.data).toHaveLength(1);

    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('a job is cancelled and tried again; its documents are listed, hidden, and deleted', async () => {
    const { client, liveOnly } = target();
    const { data: corpus } = await client.POST('/api/v1/corpora', { body: { name: 'Retried' } });
    const source = await startSource();
    const path = {
      corpus_id: example.corpus,
      ingestion_id: example.ingestion,
      document_id: example.document,
    };
    await liveOnly(() => {
      path.corpus_id = corpus.id;
    });
    const inCorpus = { params: { path: { corpus_id: path.corpus_id } } };
    const { data: job } = await client.POST(`${url}/documents`, {
      ...inCorpus,
      body: { urls: [source.url] },
    });
    await liveOnly(() => {
      path.ingestion_id = job.id;
      path.document_id = job.items[0]?.document_id ?? '';
    });
    const cancelled = await client.POST(`${jobUrl}/cancel`, { params: { path } });
    expect(cancelled.response.status).toBe(202);
    expectShape('IngestionJobWithItems', cancelled.data);
    expect(cancelled.data.status).toBe('cancelled');
    source.isThere = true;
    const again = await client.POST(`${jobUrl}/retry`, { params: { path } });
    expect(again.response.status).toBe(202);
    expectShape('IngestionJobWithItems', again.data);
    await jobEnds(target(), path, 'completed');

    const { data: page } = await client.GET(`${url}/documents`, inCorpus);
    expectShape('DocumentPage', page);
    const read = await client.GET(documentUrl, { params: { path } });
    expectShape('Document', read.data);
    expect(read.data.status).toBe('ready');
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { enabled: false } };
    const hidden = await client.PATCH(documentUrl, change);
    expectShape('Document', hidden.data);
    expect(hidden.data.enabled).toBe(false);
    const stale = await refusal(client.PATCH(documentUrl, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    expect((await client.DELETE(documentUrl, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(documentUrl, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('a corpus is granted to a group by who has read its grants', async () => {
    const { client, liveOnly } = target();
    const { data: corpus } = await client.POST('/api/v1/corpora', { body: { name: 'Granted' } });
    const { data: me } = await client.GET('/api/v1/users/me');
    const path = { corpus_id: example.corpus };
    const grant = { principal: example.group, role: 'member' as const };
    await liveOnly(async () => {
      path.corpus_id = corpus.id;
      const organization_id = me.memberships[0]?.organization_id ?? '';
      const { data: group } = await client.POST('/api/v1/groups', {
        body: { name: 'Readers', organization_id },
      });
      grant.principal = group.id;
    });
    const before = await client.GET(`${url}/access`, { params: { path } });
    expectShape('CorpusAccess', before.data);
    const header = { 'If-Match': before.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { grants: [grant] } };
    const granted = await client.PUT(`${url}/access`, change);
    expectShape('CorpusAccess', granted.data);
    expect(granted.data.grants).toEqual([grant]);
    const stale = await refusal(client.PUT(`${url}/access`, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
  });
}

/** A page that fails until it is there: it is asked for again after 5 and 30 seconds, and so long its job is at work. */
async function startSource(): Promise<{ readonly url: string; isThere: boolean }> {
  const server = createServer((_request, response) => {
    response.writeHead(source.isThere ? 200 : 503, { 'content-type': 'text/plain' }).end('At last.');
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  const source = { url: `http://127.0.0.1:${port}/page`, isThere: false };
  return source;
}

interface JobPath {
  readonly corpus_id: string;
  readonly ingestion_id: string;
}

async function jobEnds({ client }: Target, path: JobPath, status: string): Promise<void> {
  const ended = await vi.waitFor(
    async () => {
      const { data } = await client.GET(jobUrl, { params: { path } });
      expect(data.ended_at).not.toBeNull();
      return data;
    },
    { timeout: 60_000, interval: 50 },
  );
  expectShape('IngestionJobWithItems', ended);
  expect(ended.status).toBe(status);
}
