import { describe, expect, it } from 'vitest';
import type { MessagePart } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { searchTerms, wordsIn } from './search-words.ts';
import type { SearchQuery } from './searches.ts';
import type { Reach, Store } from './store.ts';
import { beginRun, endRun, message, noUsage } from './test-runs.ts';
import { describeStores, newAccount, reachOfNobody } from './test-stores.ts';

describe('Words', () => {
  const words = (text: string) => [...wordsIn(text)].map(({ word }) => word);
  const terms = (text: string) => searchTerms(text).map(({ word, prefix }) => word + (prefix ? '*' : ''));

  it.each([
    ['src/app_main.ts', ['src', 'app', 'main', 'ts']],
    ['parseConfig HTTPServer', ['parseconfig', 'parse', 'config', 'httpserver', 'http', 'server']],
    ['Čaj À LA carte', ['caj', 'a', 'la', 'carte']],
    ['ﬁle № ½', ['file', '12']],
    ['今天天气', ['今', '今天', '天', '天天', '天', '天气', '气']],
    ['東京tower3', ['東', '東京', '京', 'tower3']],
    ['"; drop table -- * ( NEAR', ['drop', 'table', 'near']],
    ['\ud800 \u0000 🙂', []],
  ])('of %o are %o', (text, expected) => {
    expect(words(text)).toEqual(expected);
  });

  it('asked for may begin others when they are long enough, and pairs may not', () => {
    expect(terms('go fmt Go parseConfig 天气 天')).toEqual(['go', 'fmt*', 'parseconfig*', '天气', '天']);
    expect(terms('a '.repeat(10) + [...'bcdefghijklmnopqrstuvwxyz'].join(' '))).toHaveLength(16);
    expect(terms('?!. -- ***')).toEqual([]);
  });

  it('of a long text stand where they are said to stand, and no word is longer than 64 signs', () => {
    const text = `Grüße an ${'x'.repeat(1000)} fooBar 天気`;
    for (const { word, start, end } of wordsIn(text))
      expect(
        text
          .slice(start, end)
          .normalize('NFKD')
          .replaceAll(/\p{Mn}/gu, '')
          .toLowerCase(),
      ).toContain(word);
    expect(Math.max(...words(text).map((word) => word.length))).toBe(64);
    expect(words('a '.repeat(100_000))).toHaveLength(25_000);
  });
});

/** Stores a session in which a person asks and the model answers, with a tool call in between. */
async function conversation(
  store: Store,
  reach: Reach,
  said: { title?: string; prompt: string; answer?: string; input?: object; result?: string },
) {
  const { session } = await store.sessions.create(reach, { ...(said.title && { title: said.title }) });
  const run = await beginRun(store, reach, { sessionId: session.id, prompt: said.prompt });
  const parts: MessagePart[] = [
    { type: 'reasoning', text: 'secretthought' },
    { type: 'text', text: said.answer ?? 'Well.' },
    { type: 'tool_use', id: 'call_1', name: 'grep', input: { ...said.input } },
  ];
  const result: MessagePart = {
    ...{ type: 'tool_result', tool_use_id: 'call_1', name: 'grep' },
    ...{ content: said.result ?? '', is_error: false },
  };
  const answer = { ...message('assistant', ''), parts };
  const results = { ...message('tool', ''), id: newId('message'), parts: [result] };
  await store.transcript.commitStep({
    ...run,
    messages: [answer, results],
    usage: noUsage,
    steps: 1,
    events: [],
  });
  await endRun(store, run);
  return { sessionId: session.id, answerId: answer.id, resultId: results.id };
}

describeStores('A search', (store) => {
  const search = async (reach: Reach, query: string, more: Partial<SearchQuery> = {}) =>
    (await store().searches.find(reach, { query, ...more }, { limit: 100 })).data;

  it('finds titles and messages that hold every word, and tool calls where it is asked to', async () => {
    const reach = await newAccount(store());
    const said = await conversation(store(), reach, {
      title: 'Broken build',
      prompt: 'Why is the build broken since Tuesday?',
      answer: 'The lock file is stale.',
      input: { pattern: 'renderInvoice', nested: [{ path: 'src/invoice.ts' }] },
      result: 'totals.ts: export function sumTotals()',
    });
    const other = await conversation(store(), reach, { title: 'Lunch', prompt: 'A recipe for soup' });
    expect((await search(reach, 'build')).map(({ kind }) => kind)).toEqual(['message', 'title']);
    expect(await search(reach, 'broken TUESDAY build')).toMatchObject([
      { session_id: said.sessionId, session_title: 'Broken build', score: 1 },
    ]);
    expect(await search(reach, 'stal fil')).toMatchObject([
      { message_id: said.answerId, snippet: 'The lock file is stale.', score: 0.5 },
    ]);
    expect(await search(reach, 'tuesday soup')).toEqual([]);
    expect(await search(reach, 'invoice')).toEqual([]);
    expect(await search(reach, 'invoice', { in: ['tool'] })).toMatchObject([{ message_id: said.answerId }]);
    expect(await search(reach, 'totals', { in: ['tool'] })).toMatchObject([{ message_id: said.resultId }]);
    expect(await search(reach, 'secretthought', { in: ['title', 'message', 'tool'] })).toEqual([]);
    expect(await search(reach, 'soup', { session_id: said.sessionId })).toEqual([]);
    expect(await search(reach, 'soup', { session_id: other.sessionId })).toHaveLength(1);
    const { session } = (await store().sessions.find(reach, other.sessionId)) ?? {};
    expect(await search(reach, 'soup', { workspace_id: session?.workspace_id ?? '' })).toHaveLength(1);
    expect(await search(reach, 'soup', { workspace_id: newId('workspace') })).toEqual([]);
  });

  it('never finds what belongs to another, whatever is asked', async () => {
    const [reach, stranger] = [await newAccount(store()), await newAccount(store())];
    const { sessionId } = await conversation(store(), reach, { title: 'Canary one', prompt: 'canary two' });
    expect(await search(reach, 'canary')).toHaveLength(2);
    const [organization] = reach.organizationIds;
    for (const query of [
      'canary',
      `@${organization} canary`,
      `canary" OR "@${organization}`,
      '@title',
      `${organization}`,
    ])
      expect(await search(stranger, query), query).toEqual([]);
    expect(await search(stranger, 'canary', { session_id: sessionId })).toEqual([]);
    expect(await search(reachOfNobody(stranger.userId), 'canary')).toEqual([]);
  });

  it('takes as many words of a text as there is room for, however they are written', async () => {
    const reach = await newAccount(store());
    // A sign that stands for six, each time with other marks: its words are long, and no two are alike.
    const codes = Array.from({ length: 0x10000 }, (_, code) => String.fromCodePoint(code));
    const marks = codes.filter((sign) => /\p{Mc}/u.test(sign));
    const signs = marks.flatMap((one) => marks.map((other) => `㌖${one}${other}`));
    const prompt = `first ${signs.slice(0, 16_600).join('')}`;
    const words = new Set([...wordsIn(prompt)].map(({ word }) => word));
    expect(Buffer.byteLength([...words].join(''))).toBeGreaterThan(1024 * 1024);
    const run = await conversation(store(), reach, { prompt });
    expect(await search(reach, 'first')).toMatchObject([{ session_id: run.sessionId, kind: 'message' }]);
  });

  it('follows what is renamed and what is deleted', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { title: 'Walrus' });
    await store().sessions.update(reach, session.id, { title: 'Penguin' });
    expect(await search(reach, 'walrus')).toEqual([]);
    expect(await search(reach, 'penguin')).toMatchObject([{ snippet: 'Penguin', message_id: null }]);
    await store().transcript.replaceTitle(session.id, 'Penguin', 'Ostrich');
    expect(await search(reach, 'ostrich')).toHaveLength(1);
    await store().sessions.delete(reach, session.id);
    expect(await search(reach, 'ostrich')).toEqual([]);
  });

  it.each([
    ['"'],
    ["'"],
    ['"" "" '],
    ['*'],
    ['a*b*'],
    ['^x'],
    ['NEAR(a b, 2)'],
    ['a AND'],
    ['OR'],
    ['NOT a'],
    ['words: x'],
    ['a:* | !b & (c'],
    ['\\'],
    ['--'],
    ['/*'],
    ['{a}:b'],
    ['a"b\'c'],
    ['٣'],
    ['ß'],
    ['ﬃ'],
    ['İ'],
    ['ٱلعَرَبِيَّة'],
    ['हिन्दी'],
    ['한국어'],
    ['🙂🙃'],
    ['\u200b\u202e'],
    ['x'.repeat(1000)],
    ['天'.repeat(1000)],
    ['a '.repeat(500)],
    ['\u0345'],
    ['𝒳 𝟙'],
    ['ª'],
  ])('takes %o for words and nothing else', async (query) => {
    const reach = await newAccount(store());
    await store().sessions.create(reach, { title: query.slice(0, 200) });
    const hits = await search(reach, query.slice(0, 200));
    expect(hits).toHaveLength(searchTerms(query).length > 0 ? 1 : 0);
  });

  it('finds what is written without spaces by its parts', async () => {
    const reach = await newAccount(store());
    await store().sessions.create(reach, { title: '今天天气很好' });
    expect(await search(reach, '天气')).toHaveLength(1);
    expect(await search(reach, '好')).toHaveLength(1);
    expect(await search(reach, '明天')).toEqual([]);
  });

  it('tells the newest first, page by page, with a cursor that is good for this search alone', async () => {
    const reach = await newAccount(store());
    for (const number of [1, 2, 3, 4, 5]) await store().sessions.create(reach, { title: `Page ${number}` });
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await store().searches.find(reach, { query: 'page' }, { limit: 2, cursor });
      seen.push(...page.data.map(({ snippet }) => snippet));
      cursor = page.next_cursor ?? undefined;
    } while (cursor);
    expect(seen).toEqual(['Page 5', 'Page 4', 'Page 3', 'Page 2', 'Page 1']);
    const { next_cursor } = await store().searches.find(reach, { query: 'page' }, { limit: 2 });
    const misused = store().searches.find(reach, { query: 'other' }, { cursor: next_cursor ?? '' });
    await expect(misused).rejects.toMatchObject({ code: 'invalid_cursor' });
  });

  it('shows the text around the first word found', async () => {
    const reach = await newAccount(store());
    const long = `${'lorem ipsum '.repeat(400)}\n\n  the needle   is here ${'dolor sit '.repeat(400)}`;
    await conversation(store(), reach, { prompt: long });
    const [hit] = await search(reach, 'needle');
    expect(hit?.snippet).toMatch(/^….*the needle is here .*…$/);
    expect(hit?.snippet.length).toBeLessThan(250);
  });
});

describeStores('The list of sessions', (store) => {
  it('takes words of titles, parents, pins and times as filters, with any order and any page', async () => {
    const reach = await newAccount(store());
    const parent = (await store().sessions.create(reach, { title: 'Alpha plan' })).session;
    for (const title of ['Alpha two', 'Beta', 'Alphabet'])
      await store().sessions.create(reach, { title, tags: ['t'] }, { parentId: parent.id });
    const titles = async (query: Parameters<Store['sessions']['list']>[1]) =>
      (await store().sessions.list(reach, { sort: 'created_at', ...query })).data.map(({ title }) => title);
    expect(await titles({ q: 'alpha' })).toEqual(['Alpha plan', 'Alpha two', 'Alphabet']);
    expect(await titles({ q: 'alpha', tag: 't', sort: '-updated_at' })).toEqual(['Alphabet', 'Alpha two']);
    expect(await titles({ q: '!?' })).toEqual([]);
    expect(await titles({ parent_id: parent.id })).toEqual(['Alpha two', 'Beta', 'Alphabet']);
    await store().sessions.update(reach, parent.id, { pinned: true });
    expect(await titles({ pinned: true })).toEqual(['Alpha plan']);
    expect(await titles({ pinned: false })).toHaveLength(3);
    const { next_cursor } = await store().sessions.list(reach, { q: 'alpha', limit: 1 });
    const next = await store().sessions.list(reach, { q: 'alpha', limit: 5, cursor: next_cursor ?? '' });
    expect(next.data).toHaveLength(2);
    expect(await titles({ updated_after: parent.updated_at })).toEqual([]);
    expect(await titles({ updated_after: '2026-11-21T07:59:59.999Z' })).toHaveLength(4);
  });
});
