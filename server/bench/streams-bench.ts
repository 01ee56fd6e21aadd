/** Measures what a run costs beside a bare relay of the same provider's stream: CPU, memory, and five hundred at once. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MeasuredProcess, startMeasured } from './measured-process.ts';
import { hashOf, open, post, readStream, type StreamRead } from './stream-reader.ts';

const rounds = 5;
const together = 500;
const megabyte = 1_000_000;
/** How many times the relay's CPU a step with a tool call may take, and a piece of an answer. */
const promisedRatio = { step: 30, piece: 20 };
/** The most memory of the process with all streams open. */
const promisedMegabytes = 512;
/** How many times as long as without slow readers 99 of 100 short runs may take beside them. */
const promisedBesideSlow = 1.5;
const slowReaders = 50;
/** How soon 99 of 100 looks at /health are answered meanwhile. */
const promisedHealthMs = 500;

const steps = 10;
const sentence = 'All of this is told word by word. ';
/** What the upstream answers: in pieces of eight characters, as models write. */
const script = {
  rules: [
    {
      when: { last_user: '^steps', step: steps - 1 },
      reply: { text: 'Done.' },
    },
    {
      when: { last_user: '^steps' },
      reply: { tool_calls: [{ name: 'ls', arguments: { path: '.' } }] },
    },
    { when: { last_user: '^long' }, reply: { text: sentence, repeat: 50, chunk_delay_ms: 10 } },
    { when: { last_user: '^big' }, reply: { text: 'x'.repeat(40_000), repeat: 400, chunk_size: 20_000 } },
    { when: { last_user: '^held' }, reply: { text: sentence, repeat: 2, hold_after_chunks: 3 } },
    {
      when: { last_user: '^ask', step: 0 },
      reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'a' } }] },
    },
    {
      when: { last_user: '^many (?<name>\\S+)' },
      reply: { text: 'I am {{match.name}}. ', repeat: 40, chunk_delay_ms: 40 },
    },
    { reply: { text: 'Hello.' } },
  ],
};

const folder = await mkdtemp(join(tmpdir(), 'service-bench-'));
const started: MeasuredProcess[] = [];
try {
  process.exitCode = (await bench()) ? 0 : 1;
} finally {
  for (const one of started.toReversed()) await one.stop();
  await rm(folder, { recursive: true });
}

async function bench(): Promise<boolean> {
  const upstream = await start('../../contract-tests/upstream/upstream.ts', [], /"url"/);
  await fetch(`${upstream.url}/_script`, { method: 'PUT', body: JSON.stringify(script) });
  const relay = await start('relay-server.ts', [upstream.url], /listening/);
  const given = withServer({ upstream, relay }, await startServer('first', upstream.url));
  const cheapSteps = await cpuPerStep(given);
  const cheapPieces = await cpuPerEvent(given);
  const unmoved = await besideSlowReaders(given);
  const small = await memory(given);
  // In a process of its own: what the parts before have left would be counted as the streams' memory.
  const second = withServer({ upstream, relay }, await startServer('second', upstream.url));
  return (await manyStreams(second)) && cheapSteps && cheapPieces && unmoved && small;
}

function withServer({ upstream, relay }: Pick<Given, 'upstream' | 'relay'>, server: MeasuredProcess): Given {
  const key = /sk-[\w-]{43,}/.exec(server.printed)?.[0] ?? '';
  return {
    ...{ upstream, relay, server },
    session: () => newSession(server.url, key),
    followed: (runId) => open('GET', `${server.url}/api/v1/runs/${runId}/events`, key),
    query: (session, prompt, more) =>
      post(`${server.url}/api/v1/query/stream`, { session_id: session, prompt, ...more }, key),
    relayed: (prompt) =>
      post(relay.url, { model: 'scripted-1', stream: true, messages: [{ role: 'user', content: prompt }] }),
  };
}

interface Given {
  readonly upstream: MeasuredProcess;
  readonly relay: MeasuredProcess;
  readonly server: MeasuredProcess;
  session(): Promise<string>;
  followed(runId: string): ReturnType<typeof open>;
  query(session: string, prompt: string, more?: object): ReturnType<typeof post>;
  relayed(prompt: string): ReturnType<typeof post>;
}

async function start(...given: Parameters<typeof startMeasured>): Promise<MeasuredProcess> {
  const one = await startMeasured(...given);
  started.push(one);
  return one;
}

function startServer(name: string, upstreamUrl: string): Promise<MeasuredProcess> {
  const home = join(folder, name);
  mkdirSync(join(home, 'config'), { recursive: true });
  const settings = {
    providers: {
      scripted: {
        ...{ type: 'openai-compat', base_url: `${upstreamUrl}/v1`, api_key: 'k' },
        models: [{ id: 'scripted-1' }],
      },
    },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
  };
  writeFileSync(join(home, 'config/service.json'), JSON.stringify(settings));
  return start('../start.mjs', ['--port', '0', '--data-dir', join(home, 'data')], /sk-[\w-]{43,}/, {
    HOME: home,
    SERVICE_GLOBAL_CONFIG: join(home, 'config'),
    SERVICE_STREAMS_PER_USER: '10000',
    SERVICE_STREAMS_TOTAL: '10000',
  });
}

async function newSession(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/api/v1/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    // With a title of its own no model is asked for one.
    body: JSON.stringify({ title: 'Benchmark' }),
  });
  const { id } = (await response.json()) as { id: string }; // as the contract has it
  return id;
}

/** Ten answers of the model, a tool call between each two. The relay has a caller that asks ten times. */
async function cpuPerStep({ server, relay, session, query, relayed }: Given): Promise<boolean> {
  const runs = 6;
  const ofServer = async () => {
    for (let run = 0; run < runs; run += 1) await finished(query(await session(), 'steps'));
  };
  const ofRelay = async () => {
    for (let call = 0; call < runs * steps; call += 1) await readStream(await relayed('steps'));
  };
  write(`a run of ${steps} steps with a tool call each, best of ${rounds} rounds\n`);
  return compare(
    'step',
    await best(relay, ofRelay, runs * steps),
    await best(server, ofServer, runs * steps),
  );
}

/** As models write: piece by piece, a hundred in a second. */
async function cpuPerEvent({ server, relay, session, query, relayed }: Given): Promise<boolean> {
  const streams = 20;
  const pieces = streams * Math.ceil((sentence.length * 50) / 8);
  const sessions = await Promise.all(Array.from({ length: streams }, session));
  const ofServer = () => Promise.all(sessions.map((id) => finished(query(id, 'long'))));
  const ofRelay = () => Promise.all(sessions.map(async () => readStream(await relayed('long'))));
  write(`${streams} streams at once, each of a hundred pieces in a second, best of ${rounds} rounds\n`);
  return compare('piece', await best(relay, ofRelay, pieces), await best(server, ofServer, pieces));
}

/** CPU in milliseconds for one of `count`, in the best of the rounds: what others do on the machine only adds. */
async function best(subject: MeasuredProcess, work: () => Promise<unknown>, count: number): Promise<number> {
  await work();
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const before = await subject.resources();
    await work();
    const after = await subject.resources();
    least = Math.min(least, (after.cpuMicroseconds - before.cpuMicroseconds) / 1000 / count);
  }
  return least;
}

/** Answers with whether the promise is kept. */
function compare(what: 'step' | 'piece', relay: number, server: number): boolean {
  const row = (name: string, ms: number) => `  ${name.padEnd(34)} ${ms.toFixed(3)} ms CPU a ${what}\n`;
  write(row('the relay', relay) + row('the server', server));
  write(`  ratio ${(server / relay).toFixed(1)}; promised at most ${promisedRatio[what]}\n`);
  return server / relay <= promisedRatio[what];
}

/** Readers of two kilobytes a second have megabytes before them; others must not notice. */
async function besideSlowReaders({ session, query, followed }: Given): Promise<boolean> {
  const { runId } = await finished(query(await session(), 'big'));
  const alone = await shortRuns({ session, query });
  const readers = await Promise.all(Array.from({ length: slowReaders }, () => followed(runId)));
  for (const reader of readers) reader.pause();
  const dripping = setInterval(() => {
    for (const reader of readers) reader.read(2048);
  }, 1000);
  // Until the kernel's buffers are full: some megabytes for each.
  await sleep(10_000);
  const beside = await shortRuns({ session, query });
  clearInterval(dripping);
  const left = readers.filter(({ readableEnded, destroyed }) => !readableEnded && !destroyed).length;
  for (const reader of readers) reader.destroy();
  const row = (name: string, ms: number) => write(`  ${name.padEnd(34)} p99 ${ms.toFixed(1)} ms\n`);
  write(`short runs beside ${slowReaders} readers of two kilobytes a second, best of ${rounds} rounds\n`);
  row('alone', alone);
  row(`beside ${left} that are still reading`, beside);
  write(`  ratio ${(beside / alone).toFixed(1)}; promised at most ${promisedBesideSlow}\n`);
  return left === slowReaders && beside / alone <= promisedBesideSlow;
}

/** From the question to the end of the answer, in milliseconds: the 99th of 100, in the best of the rounds. */
async function shortRuns({ session, query }: Pick<Given, 'session' | 'query'>): Promise<number> {
  const count = 100;
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const taken: number[] = [];
    for (let run = 0; run < count; run += 1) {
      const id = await session();
      const asked = performance.now();
      await finished(query(id, 'hello'));
      taken.push(performance.now() - asked);
    }
    least = Math.min(least, taken.toSorted((a, b) => a - b)[count - 2] ?? least);
  }
  return least;
}

async function memory({ upstream, relay, server, session, query, relayed }: Given): Promise<boolean> {
  const count = 200;
  write(`memory after a collection, for each of ${count}\n`);
  const row = (name: string, bytes: number, more = '') =>
    write(`  ${name.padEnd(34)} ${(bytes / 1000).toFixed(1)} kB${more}\n`);
  const holds = async (subject: MeasuredProcess, work: () => Promise<() => Promise<unknown>>) => {
    const before = await subject.resources('collect');
    const leave = await work();
    const bytes = ((await subject.resources('collect')).heapUsed - before.heapUsed) / count;
    await leave();
    // What was done before is let go of meanwhile: a little may seem to be less than nothing.
    return Math.max(0, bytes);
  };
  const each = <T>(work: () => Promise<T>) => Promise.all(Array.from({ length: count }, work));
  const nothing = async () => undefined;
  const ofRelay = await holds(relay, () => heldStreams(() => each(() => relayed('held')), upstream));
  row('the relay, a stream', ofRelay);
  const isKept = async (name: string, promised: number, work: () => Promise<() => Promise<unknown>>) => {
    const bytes = await holds(server, work);
    const ratio = bytes / ofRelay;
    row(name, bytes, `, ratio ${ratio.toFixed(1)}; promised at most ${promised}`);
    return ratio <= promised;
  };
  const streaming = await isKept('the server, a streaming run', 10, async () => {
    const ids = await each(session);
    return heldStreams(() => Promise.all(ids.map((id) => query(id, 'held'))), upstream);
  });
  const waiting = await isKept('the server, a run that waits', 5, async () => {
    const answers = await each(async () => query(await session(), 'ask'));
    await Promise.all(answers.map(untilAsked));
    return nothing;
  });
  const idle = await isKept('the server, a session that is idle', 1, async () => {
    for (const id of await each(session)) await finished(query(id, 'hello'));
    return nothing;
  });
  return streaming && waiting && idle;
}

/** Streams whose first pieces have been read, and whose rest is kept back until they are left. */
async function heldStreams(
  open: () => Promise<Awaited<ReturnType<typeof post>>[]>,
  upstream: MeasuredProcess,
): Promise<() => Promise<unknown>> {
  const answers = await open();
  const reads = answers.map(readStream);
  await sleep(3000);
  return async () => {
    // A stream may begin to wait after a release.
    const releasing = setInterval(() => void fetch(`${upstream.url}/_release`, { method: 'POST' }), 200);
    await Promise.all(reads);
    clearInterval(releasing);
  };
}

/** The reader leaves as soon as it has read the question; the run waits on. */
async function untilAsked(answer: Awaited<ReturnType<typeof post>>): Promise<void> {
  let text = '';
  for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) {
    text += piece;
    if (text.includes('permission_requested')) return;
  }
  throw new Error(`There was no question:\n${text}`);
}

async function finished(asked: ReturnType<typeof post>): Promise<StreamRead> {
  const read = await readStream(await asked);
  if (read.status !== 200 || read.ends.join() !== 'done')
    throw new Error(`A run failed: ${JSON.stringify(read)}`);
  return read;
}

/** All at once: none may be broken, the server answers meanwhile, and gives back what it took. */
async function manyStreams({ server, session, query }: Given): Promise<boolean> {
  const sessions: string[] = [];
  for (let index = 0; index < together; index += 1) sessions.push(await session());
  const before = await server.resources('collect');
  const descriptors = server.openDescriptors();
  const watch = watchHealth(server);
  const startedAt = performance.now();
  const reads = await Promise.all(
    sessions.map(async (id, index) => ({ index, read: await readStream(await query(id, `many s${index}`)) })),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const { health, mostMemory } = await watch.stop();
  const used = (await server.resources()).cpuMicroseconds - before.cpuMicroseconds;
  const whole = reads.filter(({ index, read }) => isWhole(read, `I am s${index}. `.repeat(40)));
  const refused = reads.filter(({ read }) => (read.status === 429 || read.status === 503) && read.retryAfter);
  const events = reads.reduce((sum, { read }) => sum + read.events, 0);
  const left = await untilGivenBack(server, before.heapUsed, descriptors);
  const p99 = health[Math.floor(health.length * 0.99)] ?? 0;
  const broken = together - whole.length - refused.length;
  write(`${together} streaming runs at once, each of a hundred pieces, counted by number and hash\n`);
  write(
    `  ${whole.length} whole, ${refused.length} refused, ${broken} broken; ${events} events in ${seconds.toFixed(1)} s, ${(used / 1000 / events).toFixed(3)} ms CPU an event\n`,
  );
  write(
    `  /health meanwhile: median ${Math.round(health[health.length >> 1] ?? 0)} ms, p99 ${Math.round(p99)} ms of ${health.length}\n`,
  );
  write(
    `  memory: ${Math.round(before.rss / megabyte)} MB before, at most ${Math.round(mostMemory / megabyte)} MB; heap afterwards ${left.heapRatio.toFixed(2)} of before; ${left.descriptors} more descriptors\n`,
  );
  const promised =
    whole.length === together &&
    p99 < promisedHealthMs &&
    left.heapRatio < 1.5 &&
    left.descriptors <= 20 &&
    mostMemory < promisedMegabytes * megabyte;
  if (!promised)
    write(
      `  promised: all whole, /health within ${promisedHealthMs} ms, at most ${promisedMegabytes} MB, heap within 1.5, at most 20 more descriptors\n`,
    );
  return promised;
}

function isWhole({ status, gapless, ends, textHash }: StreamRead, text: string): boolean {
  return status === 200 && gapless && ends.join() === 'done' && textHash === hashOf(text);
}

/** Asks for the health of the server ten times in a second, and looks at its memory. */
function watchHealth(server: MeasuredProcess) {
  const health: number[] = [];
  let mostMemory = 0;
  let over = false;
  const watching = (async () => {
    while (!over) {
      const asked = performance.now();
      const { status } = await fetch(`${server.url}/health`);
      if (status !== 200) throw new Error(`/health answers ${status}`);
      health.push(performance.now() - asked);
      mostMemory = Math.max(mostMemory, (await server.resources()).rss);
      await sleep(100);
    }
  })();
  return {
    async stop() {
      over = true;
      await watching;
      return { health: health.toSorted((a, b) => a - b), mostMemory };
    },
  };
}

async function untilGivenBack(server: MeasuredProcess, heapBefore: number, descriptorsBefore: number) {
  for (let tries = 0; ; tries += 1) {
    const heapRatio = (await server.resources('collect')).heapUsed / heapBefore;
    const descriptors = Math.max(0, server.openDescriptors() - descriptorsBefore);
    if ((heapRatio < 1.5 && descriptors <= 20) || tries > 30) return { heapRatio, descriptors };
    await sleep(1000);
  }
}

function write(text: string): void {
  process.stdout.write(text);
}
