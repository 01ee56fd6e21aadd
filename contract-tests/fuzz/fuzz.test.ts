/** Thousands of requests made from the contract, valid and hostile ones, against a live server: it keeps its word. */
import { createServiceClient } from '@service/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { operations } from '../contract.ts';
import { startGitServer, type TestGitServer, type TestRepository } from '../git/start-git.ts';
import { newDatabase } from '../new-database.ts';
import { type OpenId, openIdVariables, startOpenId } from '../openid/start-openid.ts';
import { type Server, startServer } from '../start-server.ts';
import { startUpstream, type Upstream } from '../upstream/start-upstream.ts';
import { type FuzzResult, type FuzzShare, runFuzzer } from './run-fuzzer.ts';

/**
 * The fuzzer has one thread, and thinks for longer than the server answers: four of them share the work, each with a server
 * of its own, so that what they find stays the same each time.
 */
const every = operations.map(({ operationId }) => operationId);
const shares: readonly FuzzShare[] = [
  ...[0, 1, 2].map(
    (share): FuzzShare => ({
      phases: ['examples', 'coverage', 'fuzzing'],
      operationIds: every.filter((_, place) => place % 3 === share),
    }),
  ),
  { phases: ['stateful'], operationIds: every },
];

/** SQLite, or by `make contract ON=postgres` an empty PostgreSQL for each. */
const postgres = process.env.FUZZ_ON === 'postgres' ? inject('postgresUrl') : null;

let upstream: Upstream;
let openid: OpenId;
let git: TestGitServer;
/** A repository of skills. */
let house: TestRepository;
const servers: Server[] = [];
let results: readonly FuzzResult[];
let failures: FuzzResult['report']['failures'];

beforeAll(async () => {
  if (process.env.FUZZ_ON === 'postgres' && postgres === null)
    throw new Error('There is no PostgreSQL in .venv: make python installs it.');
  upstream = await startUpstream();
  openid = await startOpenId();
  await openid.person({ sub: 'fuzz', email: 'fuzz@corp.example', email_verified: true });
  git = await startGitServer();
  house = await git.make('house');
  await house.commit({ 'tidy/SKILL.md': '---\nname: tidy\ndescription: Tidies up.\n---\nDo it well.\n' });
  results = await Promise.all(shares.map(fuzz));
  failures = results.flatMap(({ report }) => report.failures);
  console.log(shareOfSuccesses());
  for (const { exitCode, output } of results) if (exitCode !== 0) console.error(shortened(output));
  // Some minutes of two processors; where others want them too, it takes as long as it takes.
}, 1_800_000);
afterAll(async () => {
  for (const server of servers) await server.stop();
  await openid?.stop();
  await git?.stop();
  await upstream?.stop();
});

async function fuzz(share: FuzzShare): Promise<FuzzResult> {
  const server = await startServer({
    upstreamUrl: upstream.url,
    databaseUrl: postgres === null ? undefined : (await newDatabase(postgres)).url,
    variables: {
      // The brake on guessing would answer in the place of what is tried here.
      SERVICE_LOGIN_ATTEMPTS: '100000',
      // Where a provider is played that gives tokens.
      SERVICE_OUTBOUND_ALLOW: '127.0.0.1',
      ...openIdVariables(openid.url),
    },
  });
  servers.push(server);
  return runFuzzer(server, house.url, share);
}

describe.each(operations)('$operationId', ({ operationId, label, successStatuses }) => {
  test('keeps what the contract says of it', () => {
    const broken = failures.filter((failure) => failure.operations.includes(label));
    expect(broken.map(({ code, title }) => `${code} ${title}`)).toEqual([]);
  });

  test('was brought to one of its successes', () => {
    const reached = statusesOf(operationId).map(([status]) => status);
    expect(
      successStatuses.some((status) => reached.includes(status)),
      `only got ${reached}`,
    ).toBe(true);
  });
});

test('every phase ran over every operation, without a failure or an error between them', () => {
  expect(results.flatMap(({ report }) => report.errors)).toEqual([]);
  expect(failures).toEqual([]);
  for (const [place, { exitCode, report }] of results.entries()) {
    const { phases = [], operationIds = [] } = shares[place] ?? {};
    const ran = Object.entries(report.phases).filter(([, { status }]) => status === 'success');
    expect(ran.map(([name]) => name)).toEqual(phases);
    // Not every operation is linked with another.
    if (!phases.includes('stateful')) expect(report.operations.tested).toBe(operationIds.length);
    expect(exitCode).toBe(0);
  }
});

/** Errors in the log that are faults of others, by what they say, and why; never under the code of our own. */
const excused: Readonly<Record<string, string>> = {
  'request failed':
    'The played vendor refuses what it is asked, a text that is too long for speech for instance.',
};

function isFault(line: string): boolean {
  if (line.includes('"code":"internal_error"')) return true;
  // With another code the caller was told whose fault it is.
  const isExcused =
    Object.keys(excused).some((msg) => line.includes(`"msg":"${msg}"`)) && line.includes('"code":"');
  return line.includes('"level":50') && !isExcused;
}

test('the servers logged no fault of their own', () => {
  expect(servers.flatMap((server) => server.log().split('\n')).filter(isFault)).toEqual([]);
});

test.each([...shares.keys()])(
  'what was accepted has poisoned nothing: a fresh client is served (%i)',
  async (place) => {
    const server = servers[place] ?? expect.fail();
    expect(server.running()).toBe(true);
    const visitor = createServiceClient({ baseUrl: server.url });
    const body = { email: 'fresh@example.com', password: 'correct-horse-battery' };
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body });
    const client = createServiceClient({ baseUrl: server.url, token: pair.access_token });
    const { data: session } = await client.POST('/api/v1/sessions', { body: { title: 'Fresh' } });
    const { data: answer } = await client.POST('/api/v1/query', {
      body: { prompt: 'Hello', session_id: session.id },
    });
    expect(answer).toMatchObject({
      status: 'completed',
      content: [{ type: 'text', text: 'You said: Hello' }],
    });
    const params = { path: { session_id: session.id } };
    const { data: messages } = await client.GET('/api/v1/sessions/{session_id}/messages', { params });
    expect(messages.data.map(({ role }) => role)).toEqual(['user', 'assistant']);
    expect((await client.GET('/health')).data).toEqual({ status: 'ok' });
  },
);

/** A request with a body of megabytes is one line. */
function shortened(output: string): string {
  return output.replace(/^(.{4000}).+$/gm, (_, start: string) => `${start}… (shortened)`);
}

/** How often an operation answered with each status, in all shares together. */
function statusesOf(operationId: string): readonly (readonly [status: number, count: number])[] {
  return results.flatMap(({ statuses }) =>
    Object.entries(statuses[operationId] ?? {}).map(([status, count]) => [Number(status), count] as const),
  );
}

/** The share of successes of each operation, for people: a low one says that the fuzzer mostly meets refusals. */
function shareOfSuccesses(): string {
  const rows = operations.map(({ operationId, successStatuses }) => {
    const counts = statusesOf(operationId);
    const all = counts.reduce((sum, [, count]) => sum + count, 0);
    const successes = counts.reduce(
      (sum, [status, count]) => sum + (successStatuses.includes(status) ? count : 0),
      0,
    );
    const share = all === 0 ? 0 : Math.round((100 * successes) / all);
    return `${operationId.padEnd(24)}${`${share} %`.padStart(6)} of ${String(all).padStart(4)} answers were a success`;
  });
  return rows.join('\n');
}
