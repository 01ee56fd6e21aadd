/** The small model names sessions: what it is asked, what becomes of its answer, and that nothing waits for it. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { createLog } from '../../log.ts';
import { cpuMsOf } from '../../test-cpu.ts';
import { createMemoryTranscript } from '../memory/memory-transcript.ts';
import { createRuntime, type Runtime } from '../runtime.ts';
import { testQuery } from '../test-query.ts';

type Small = NonNullable<NonNullable<ClientConfig['models']>['small']>;

const renamed: string[] = [];
let upstream: Upstream;
let runtime: Runtime | undefined;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

beforeEach(() => {
  renamed.length = 0;
});

afterEach(async () => {
  await runtime?.close();
});

interface Answer {
  readonly reply?: object;
  readonly fail?: object;
}

/** Holds one exchange; the small model then answers as told. Resolves with the runtime when the run has ended. */
async function exchange(
  title: Answer,
  small: Partial<Small> | null = {},
  type = 'openai' as Small['provider'],
) {
  await upstream.script([
    { when: { model: 'tiny' }, ...title },
    { when: { last_user: 'fail' }, fail: { kind: 'status', status: 500 } },
    { reply: { text: 'It is a kind of bread.' } },
  ]);
  const house = {
    type: type as 'openai' | 'anthropic', // the two that these tests name
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'big' }, { id: 'tiny' }],
  };
  const transcript = {
    ...createMemoryTranscript(),
    replaceTitle: async (_session: string, present: string, written: string) =>
      void renamed.push(`${present} → ${written}`),
  };
  const models = small && { small: { provider: 'house', model: 'tiny', ...small } };
  runtime = await createRuntime(
    { providers: { house }, ...(models && { models }) },
    { transcript, log: createLog('silent') },
  );
}

async function ask(prompt: string, provisionalTitle?: string): Promise<void> {
  const query = testQuery(prompt);
  const session = { ...query.session, ...(provisionalTitle !== undefined && { provisionalTitle }) };
  const started = await runtime?.start({ ...query, session });
  const follow = { after: 0, follow: true, signal: AbortSignal.timeout(50_000) };
  for await (const event of runtime?.follow(started?.runId ?? '', follow) ?? [])
    if (event.name === 'done' || event.name === 'error') return;
}

async function titles(): Promise<string[]> {
  await runtime?.close();
  return renamed;
}

async function titleRequests() {
  return (await upstream.requests()).filter(({ body }) => Object(body).model === 'tiny');
}

test('`models.small` names a session after its first exchange', async () => {
  await exchange({ reply: { text: 'What bread is' } });
  await ask('What is naan?', 'What is naan?');
  expect(await titles()).toEqual(['What is naan? → What bread is']);
  const [request] = await titleRequests();
  const said = JSON.stringify(request?.body);
  expect(said).toContain('What is naan?');
  expect(said).toContain('It is a kind of bread.');
  expect(request?.body).not.toHaveProperty('tools');
});

test('an answer of signs without end is read in time', async () => {
  await exchange({ reply: { text: `Naan${'*'.repeat(19_000)}explained` } });
  const spent = await cpuMsOf(async () => {
    await ask('Hi', 'Hi');
    expect(await titles()).toEqual([`Hi → Naan`]);
  });
  expect(spent).toBeLessThan(700);
});

test.each([
  ['"Naan, explained."', 'Naan, explained'],
  ['Title: **Naan**\n\nIt fits, since…', 'Naan'],
  ['<think>What\nnow?</think>\n\n# Naan\u001b[31m and\tco', 'Naan [31m and co'],
  ['x'.repeat(100), 'x'.repeat(60)],
  ['👍'.repeat(100), '👍'.repeat(60)],
])('of the answer %j the title is %j', async (text, title) => {
  await exchange({ reply: { text } });
  await ask('Hi', 'Hi');
  expect(await titles()).toEqual([`Hi → ${title}`]);
});

describe('no title is written', () => {
  test('where no small model is set', async () => {
    await exchange({ reply: { text: 'A title' } }, null);
    await ask('Hi', 'Hi');
    expect(await titles()).toEqual([]);
    expect(await upstream.requests()).toHaveLength(1);
  });

  test('where its provider is not there', async () => {
    await exchange({ reply: { text: 'A title' } }, { provider: 'gone' });
    await ask('Hi', 'Hi');
    expect(await titles()).toEqual([]);
  });

  test('where the session has one', async () => {
    await exchange({ reply: { text: 'A title' } });
    await ask('Hi');
    expect(await titles()).toEqual([]);
    expect(await titleRequests()).toEqual([]);
  });

  test('for an exchange that failed', async () => {
    await exchange({ reply: { text: 'A title' } });
    await ask('fail', 'fail');
    expect(await titles()).toEqual([]);
    expect(await titleRequests()).toEqual([]);
  });

  test.each([
    { fail: { kind: 'status', status: 500 } },
    { fail: { kind: 'cut' } },
    { reply: { text: ' \n "" \n' } },
    { reply: { text: 'no end ', repeat: 4000 } },
  ])('where the small model fails: %o', async (answer) => {
    await exchange(answer);
    await ask('Hi', 'Hi');
    expect(await titles()).toEqual([]);
  });
});

test('a run has ended before its session is named, and the end of the process waits for the name', async () => {
  await exchange({ reply: { text: 'Late', first_byte_delay_ms: 400 } });
  await ask('Hi', 'Hi');
  await expect.poll(() => runtime?.activeRuns()).toBe(0);
  expect(renamed).toEqual([]);
  expect(await titles()).toEqual(['Hi → Late']);
});

describe('how the small model is asked', () => {
  async function bodyFor(small: Partial<Small>, type = 'openai') {
    await exchange({ reply: { text: 'Short' } }, small, type);
    await ask('Hi', 'Hi');
    await titles();
    return (await titleRequests())[0]?.body;
  }

  test.each([
    { max_tokens: 99 },
    { temperature: 0 },
    { top_p: 0.5 },
    { frequency_penalty: 0.5 },
    { presence_penalty: 0.5 },
    { reasoning_effort: 'low' },
  ] as const)('%o of models.small goes with it', async (small) => {
    expect(await bodyFor(small)).toMatchObject(small);
  });

  test('top_k of models.small goes with it', async () => {
    expect(await bodyFor({ top_k: 5 }, 'anthropic')).toMatchObject({ top_k: 5 });
  });

  test('think of models.small goes with it', async () => {
    const thinking = { type: 'enabled', budget_tokens: 1500 };
    expect(await bodyFor({ think: true, max_tokens: 3000 }, 'anthropic')).toMatchObject({ thinking });
  });

  test('provider_options of models.small go with it', async () => {
    const body = await bodyFor({ provider_options: { service_tier: 'flex' } });
    expect(body).toMatchObject({ service_tier: 'flex' });
  });
});
