/** Searching the web against engines that answer over HTTP in their own wire form: what is asked, found, left out, and refused. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { serveAnswers, testOutbound } from '../outbound/test-server.ts';
import { Problem } from '../problem.ts';
import type { StoredSettings } from './kept-settings.ts';
import { createWebSearch } from './web-search.ts';

type Given = object | string | { readonly status: number; readonly headers?: Record<string, string> };

/** An engine that answers as told, with all that it was asked. */
function engine(answer: (query: URLSearchParams) => Given) {
  return serveAnswers(({ url = '' }: IncomingMessage, response: ServerResponse) => {
    const given = answer(new URL(url, 'http://x').searchParams);
    const json = { 'content-type': 'application/json' };
    if (typeof given === 'string') response.end(given);
    else if ('status' in given)
      response.writeHead(given.status, { ...json, ...given.headers }).end('{"secret":"stack"}');
    else response.writeHead(200, json).end(JSON.stringify(given));
  });
}

const firstSettings: StoredSettings = {
  ...{ engine: 'searxng', base_url: null, sealed_api_key: null, updated_at: '2026-11-21T08:00:00.000Z' },
  ...{ max_results: 20, safe_search: 'moderate', allow_domains: [], deny_domains: [] },
};

interface Terms {
  readonly settings?: Partial<StoredSettings>;
  readonly environment?: string | null;
  readonly outbound?: Parameters<typeof testOutbound>[0];
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** A search by settings that stand. The keys are not sealed: that is seen to where they are kept. */
async function search(
  query: string,
  { settings, environment = null, outbound = { shared: () => false }, timeoutMs, signal }: Terms,
  most?: number,
) {
  const kept = { ...firstSettings, ...settings };
  const stands = async () => ({ kept, etag: '""' });
  const webSearch = createWebSearch<null>({
    records: { current: async () => kept, read: stands, change: stands },
    ...{ environment, outbound: testOutbound(outbound), ...(timeoutMs && { timeoutMs }) },
    sealing: { seal: (key) => key, open: (sealed) => sealed },
  });
  const asked = await webSearch.engine();
  return asked?.search(query, most, signal ?? new AbortController().signal);
}

const page = (index: number, host = 'example.com') => ({
  url: `https://${host}/${index}`,
  title: `Title ${index}`,
  content: `About\n  ${index}`,
  ...{ engine: 'wikipedia', engines: ['wikipedia'], positions: [1], score: 1, category: 'general' },
});

test('SearXNG is asked as it documents, and what nobody can fetch is left out', async () => {
  const server = await engine((query) => ({
    query: query.get('q'),
    results:
      query.get('pageno') === '1'
        ? [page(1), { title: 'no url' }, { ...page(3), url: 'javascript:x' }, { ...page(4), title: null }]
        : [],
    ...{ answers: [], suggestions: [], unresponsive_engines: [] },
  }));
  const found = await search(' cats & dogs ', { settings: { base_url: `${server.url}/searx/` } });
  expect(found).toEqual([
    { url: 'https://example.com/1', title: 'Title 1', snippet: 'About 1' },
    { url: 'https://example.com/4', title: 'https://example.com/4', snippet: 'About 4' },
  ]);
  expect(server.requests[0]?.url).toBe('/searx/search?q=cats+%26+dogs&format=json&pageno=1&safesearch=1');
  expect(server.requests[0]?.headers.accept).toBe('application/json');
});

test('SearXNG is read on until there are as many as were asked for, each once', async () => {
  const server = await engine((query) => {
    const first = (Number(query.get('pageno')) - 1) * 7;
    return { results: Array.from({ length: 8 }, (_, index) => page(first + index)) };
  });
  const settings = { base_url: server.url, safe_search: 'strict' as const };
  const found = (await search('x', { settings })) ?? [];
  expect(new Set(found.map(({ url }) => url)).size).toBe(20);
  expect(server.requests).toHaveLength(3);
  expect(server.requests[0]?.url).toContain('safesearch=2');
  expect(await search('x', { settings }, 3)).toHaveLength(3);
  // Never more than the settings say.
  expect(await search('x', { settings: { ...settings, max_results: 2 } }, 9)).toHaveLength(2);
});

test.each<[string, Given]>([
  ['is refused', { status: 429 }],
  ['fails', { status: 503 }],
  ['cannot be read', '<html>'],
])(
  'what SearXNG has found is given where a further page %s, and the fault where that is nothing',
  async (_what, second) => {
    const server = await engine((query) =>
      query.get('pageno') === '1' ? { results: [page(1), page(2)] } : second,
    );
    const settings = { base_url: server.url };
    const found = (await search('x', { settings })) ?? [];
    expect(found.map(({ url }) => url)).toEqual(['https://example.com/1', 'https://example.com/2']);
    expect(server.requests).toHaveLength(2);
    const denied = search('x', { settings: { ...settings, deny_domains: ['example.com'] } });
    await expect(denied).rejects.toBeInstanceOf(Problem);
  },
);

test('a search that is interrupted at a further page gives nothing', async () => {
  const stop = new AbortController();
  const server = await engine((query) => {
    if (query.get('pageno') !== '1') stop.abort(new Error('interrupted'));
    return { results: [page(1)] };
  });
  const searching = search('x', { settings: { base_url: server.url }, signal: stop.signal });
  await expect(searching).rejects.toThrow('interrupted');
});

test('domains are allowed and denied with all below them, whatever the engine makes of the rules', async () => {
  const hosts = ['a.test', 'docs.a.test', 'nota.test', 'b.test', 'bad.a.test', 'very.bad.a.test'];
  const server = await engine((query) => ({
    results: query.get('pageno') === '1' ? hosts.map((host, index) => page(index, host)) : [],
  }));
  const rules = { base_url: server.url, allow_domains: ['a.test', 'c.test'], deny_domains: ['bad.a.test'] };
  const found = (await search('x', { settings: rules })) ?? [];
  expect(found.map(({ url }) => new URL(url).hostname)).toEqual(['a.test', 'docs.a.test']);
  const asked = new URL(server.requests[0]?.url ?? '', server.url).searchParams.get('q');
  expect(asked).toBe('x site:a.test OR site:c.test');
});

test('Brave Search is asked as it documents, with its rules, and its answers are made plain', async () => {
  const server = await engine(() => ({
    type: 'search',
    query: { original: 'x', more_results_available: true },
    web: {
      type: 'search',
      results: [
        {
          title: 'Cats &amp; dogs',
          url: 'https://a.test/1',
          description: 'The <strong>cats</strong>&#x27; day',
        },
        { title: 'Elsewhere', url: 'https://b.test/', description: 'Not wanted' },
        { title: 'No description', url: 'https://docs.a.test/2' },
        { title: 'No address' },
      ],
    },
    mixed: { type: 'mixed', main: [] },
  }));
  const brave = { engine: 'brave', base_url: server.url, sealed_api_key: 'the-key' } as const;
  const rules = { allow_domains: ['a.test'], deny_domains: ['bad.a.test', 'b.test'] };
  expect(await search('x', { settings: { ...brave, ...rules } }, 5)).toEqual([
    { title: 'Cats & dogs', url: 'https://a.test/1', snippet: "The cats' day" },
    { title: 'No description', url: 'https://docs.a.test/2', snippet: '' },
  ]);
  const [{ url = '', headers } = { headers: {} }] = server.requests;
  expect(headers['x-subscription-token']).toBe('the-key');
  const { pathname, searchParams } = new URL(url, server.url);
  expect([pathname, Object.fromEntries(searchParams)]).toEqual([
    '/res/v1/web/search',
    {
      ...{ q: 'x', count: '20', safesearch: 'moderate', result_filter: 'web', text_decorations: 'false' },
      goggles: '$discard\n$site=a.test\n$discard,site=bad.a.test\n$discard,site=b.test',
    },
  ]);
  // Without rules no more is asked for than is wanted, and once.
  await search('x', { settings: brave }, 5);
  const asked = new URL(server.requests[1]?.url ?? '', server.url).searchParams;
  expect([asked.get('count'), asked.get('goggles'), server.requests.length]).toEqual(['5', null, 2]);
});

test('Brave Search finds nothing without saying so', async () => {
  const server = await engine(() => ({ type: 'search', query: { original: 'x' } }));
  const settings = { engine: 'brave', base_url: server.url, sealed_api_key: 'k' } as const;
  expect(await search('x', { settings })).toEqual([]);
});

const invalidKey = JSON.stringify({
  type: 'ErrorResponse',
  error: { code: 'SUBSCRIPTION_TOKEN_INVALID', status: 422, detail: 'The secret stack' },
});

test.each<[string, 'searxng' | 'brave', Given, string, RegExp, string | null]>([
  ['forbids JSON', 'searxng', { status: 403 }, 'web_search_refused', /search\.formats/, null],
  ['refuses the key', 'brave', { status: 403 }, 'web_search_refused', /refuses the key/, null],
  ['knows no such key', 'brave', { status: 401 }, 'web_search_refused', /refuses the key/, null],
  ['cannot be asked so', 'brave', { status: 422 }, 'web_search_refused', /fewer/, null],
  ['is asked too often', 'searxng', { status: 429 }, 'web_search_rate_limited', /try again later/, null],
  [
    'is asked too often, and says for how long',
    'searxng',
    { status: 429, headers: { 'retry-after': '7' } },
    'web_search_rate_limited',
    /in 7 seconds/,
    '7',
  ],
  [
    'is asked too often within a second',
    'brave',
    { status: 429, headers: { 'x-ratelimit-remaining': '0, 1000', 'x-ratelimit-reset': '1, 1419704' } },
    'web_search_rate_limited',
    /in 1 second\./,
    '1',
  ],
  [
    'is asked too often within a month',
    'brave',
    { status: 429, headers: { 'x-ratelimit-remaining': '1, 0', 'x-ratelimit-reset': '1, 1419704' } },
    'web_search_rate_limited',
    /1419704 seconds/,
    '1419704',
  ],
  ['fails', 'brave', { status: 503 }, 'web_search_failed', /status 503/, null],
  ['answers with a page', 'searxng', '<html>secret stack', 'web_search_failed', /nobody can read/, null],
  ['answers otherwise', 'searxng', { results: 'none' }, 'web_search_failed', /nobody can read/, null],
  ['answers as another', 'brave', { results: [] }, 'web_search_failed', /nobody can read/, null],
])('an engine that %s is told of by what it means', async (_what, name, given, code, said, wait) => {
  const server = await engine(() => given);
  const settings = { engine: name, base_url: server.url, sealed_api_key: 'k' };
  const error = await search('x', { settings }).catch((problem: Problem) => problem);
  expect(error).toBeInstanceOf(Problem);
  expect(error).toMatchObject({ code, message: expect.stringMatching(said) });
  expect(String(error)).not.toContain('stack');
  expect((error as Problem).headers['Retry-After'] ?? null).toBe(wait);
});

test('Brave Search says with another status that the key is wrong', async () => {
  const server = await serveAnswers((_request, response) => void response.writeHead(422).end(invalidKey));
  const settings = { engine: 'brave', base_url: server.url, sealed_api_key: 'k' } as const;
  const asking = search('x', { settings });
  await expect(asking).rejects.toMatchObject({
    code: 'web_search_refused',
    message: expect.stringMatching(/refuses the key/),
  });
});

test('an engine that says nothing, or no end, is left in time', async () => {
  const silent = await serveAnswers(() => undefined);
  const settings = { base_url: silent.url };
  const late = search('x', { settings, timeoutMs: 50 });
  await expect(late).rejects.toMatchObject({ code: 'web_search_timeout' });
  const slow = await serveAnswers((_request, response) => void response.writeHead(200).write('{'));
  const unended = search('x', { settings: { base_url: slow.url }, timeoutMs: 50 });
  await expect(unended).rejects.toMatchObject({ code: 'web_search_timeout' });
  const endless = await serveAnswers((_request, response) => {
    const write = () => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', write);
    write();
  });
  const large = search('x', { settings: { base_url: endless.url } });
  await expect(large).rejects.toMatchObject({
    code: 'web_search_failed',
    message: expect.stringContaining('larger than 8 MB'),
  });
});

test('a name that leads into the own network is not asked, at first or by a redirect, and no key goes elsewhere', async () => {
  const server = await engine(() => ({ results: [page(1)] }));
  const shared = { shared: () => true };
  const resolver = async () => [{ address: '127.0.0.1', family: 4 }];
  const named = { base_url: `http://search.example.com:${server.port}` };
  const refused = { code: 'web_search_failed', message: expect.stringContaining('not reached from here') };
  await expect(search('x', { settings: named, outbound: { ...shared, resolver } })).rejects.toMatchObject(
    refused,
  );
  expect(server.requests).toEqual([]);
  // The operator may list it, and what the environment names is the operator's own word.
  const allow = [server.url];
  expect(
    await search('x', { settings: { base_url: server.url }, outbound: { ...shared, allow } }, 1),
  ).toHaveLength(1);
  expect(await search('x', { environment: server.url, outbound: shared }, 1)).toHaveLength(1);

  const other = await engine(() => ({ type: 'search' }));
  const astray = await serveAnswers(
    (_request, response) => void response.writeHead(302, { location: `${other.url}/` }).end(),
  );
  const settings = { engine: 'brave', base_url: astray.url, sealed_api_key: 'the-key' } as const;
  const led = search('x', { settings, outbound: { ...shared, allow: [astray.url, other.url] } });
  await expect(led).rejects.toMatchObject({ code: 'web_search_failed' });
  expect(other.requests).toEqual([]);
});

test('the date that an engine says is heeded as its seconds are', async () => {
  const later = new Date(systemClock.now().getTime() + 90_000).toUTCString();
  const server = await engine(() => ({ status: 429, headers: { 'retry-after': later } }));
  const error = await search('x', { settings: { base_url: server.url } }).catch(
    (problem: Problem) => problem,
  );
  expect(Number((error as Problem).headers['Retry-After'])).toBeGreaterThan(80);
});
