/** Measures what the Messages surface costs beside bare Express relays of the same answers: passed on, and translated. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MeasuredProcess, startMeasured } from './measured-process.ts';
import { hashOf } from './stream-reader.ts';

const rounds = 9;
/** How many times the bare relay's CPU a whole answer may take, and a streamed one. */
const promised = { whole: 1.5, streamed: 1.25 };
/** What it may not exceed, since others may keep the machine busy; see docs/decisions/0076. */
const allowed = { whole: 1.8, streamed: 1.5 };
/** In a round, and of them so many at a time. */
const counts = { whole: { requests: 640, atOnce: 16 }, streamed: { requests: 16, atOnce: 16 } };
/** Rounds of either way before anything is counted: the engine has compiled what is asked again after thousands of requests. */
const warmUps = { whole: 8, streamed: 6 };
const together = 500;

const piece = 'eightchr';
const pieces = 200;
const script = {
  rules: [
    {
      when: { last_user: '^stream' },
      reply: { text: piece, repeat: pieces, chunk_size: piece.length, chunk_delay_ms: 5 },
    },
    {
      when: { last_user: '^many (?<name>\\S+)' },
      reply: { text: 'I am {{match.name}}. ', repeat: 40, chunk_delay_ms: 40 },
    },
    {
      reply: {
        text: 'The weather in Oslo is looked up. '.repeat(8),
        tool_calls: [{ name: 'weather', arguments: { city: 'Oslo' } }],
      },
    },
  ],
};

const asked = {
  max_tokens: 1000,
  system: 'You look up the weather.',
  tools: [
    {
      name: 'weather',
      description: 'The weather of a city',
      input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  ],
};

const folder = await mkdtemp(join(tmpdir(), 'service-bench-'));
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const started: MeasuredProcess[] = [];
try {
  process.exitCode = (await bench()) ? 0 : 1;
} finally {
  for (const one of started.toReversed()) await one.stop();
  agent.destroy();
  await rm(folder, { recursive: true });
}

/** One way to an answer: the process that is measured, where it is asked, and by which name of a model. */
interface Way {
  readonly name: string;
  readonly process: MeasuredProcess;
  readonly path: string;
  readonly model: string;
  readonly key: string;
}

async function bench(): Promise<boolean> {
  const upstream = await start('../../contract-tests/upstream/upstream.ts', [], /"url"/);
  await fetch(`${upstream.url}/_script`, { method: 'PUT', body: JSON.stringify(script) });
  const bare = await start('bare-gateways.ts', [upstream.url], /listening/);
  const server = await startServer(upstream.url);
  const key = /sk-[\w-]{43,}/.exec(server.printed)?.[0] ?? '';
  const ways = (form: 'pass' | 'map', model: string): [Way, Way] => [
    { name: 'the bare relay', process: bare, path: `/${form}/v1/messages`, model, key },
    { name: 'the server', process: server, path: '/v1/messages', model, key },
  ];
  const passed = ways('pass', 'vendor:scripted-1');
  const mapped = ways('map', 'scripted:scripted-1');
  const kept: boolean[] = [];
  for (const [what, pair] of [
    ['passed on', passed],
    ['translated', mapped],
  ] as const) {
    kept.push(await compare(what, 'whole', pair));
    kept.push(await compare(what, 'streamed', pair));
  }
  kept.push(await allAtOnce('passed on', passed[1]), await allAtOnce('translated', mapped[1]));
  return kept.every(Boolean);
}

async function start(...given: Parameters<typeof startMeasured>): Promise<MeasuredProcess> {
  const one = await startMeasured(...given);
  started.push(one);
  return one;
}

function startServer(upstreamUrl: string): Promise<MeasuredProcess> {
  mkdirSync(join(folder, 'config'));
  const provider = { base_url: `${upstreamUrl}/v1`, api_key: 'k', models: [{ id: 'scripted-1' }] };
  const settings = {
    providers: {
      vendor: { type: 'anthropic', ...provider },
      scripted: { type: 'openai-compat', ...provider },
    },
  };
  writeFileSync(join(folder, 'config/service.json'), JSON.stringify(settings));
  const limits = [
    '--rate-limits',
    'run=999999999/60',
    '--streams-per-user',
    '1000',
    '--streams-total',
    '1000',
  ];
  return start(
    '../start.mjs',
    ['--port', '0', '--data-dir', join(folder, 'data'), ...limits],
    /sk-[\w-]{43,}/,
    { HOME: folder, SERVICE_GLOBAL_CONFIG: join(folder, 'config') },
  );
}

/** Both in turns, so that what others do on the machine meets both; of each the best round, since it only adds. */
async function compare(
  what: string,
  form: 'whole' | 'streamed',
  [bare, server]: [Way, Way],
): Promise<boolean> {
  const least = new Map<Way, number>();
  for (let turn = 0; turn < warmUps[form]; turn += 1)
    for (const way of [bare, server]) await round(way, form);
  for (let turn = 0; turn < rounds; turn += 1)
    for (const way of [bare, server]) {
      const before = await way.process.resources();
      await round(way, form);
      const used = (await way.process.resources()).cpuMicroseconds - before.cpuMicroseconds;
      const each = used / 1000 / counts[form].requests;
      least.set(way, Math.min(least.get(way) ?? Number.POSITIVE_INFINITY, each));
    }
  const [ofBare = 0, ofServer = 0] = [bare, server].map((way) => least.get(way));
  const shape = form === 'whole' ? 'whole' : `streamed in ${pieces} pieces`;
  write(
    `${what}, ${shape}, ${counts[form].atOnce} at a time, best of ${rounds} rounds in turns: ms CPU a request\n`,
  );
  write(
    `  ${bare.name.padEnd(34)} ${ofBare.toFixed(3)}\n  ${server.name.padEnd(34)} ${ofServer.toFixed(3)}\n`,
  );
  write(
    `  ratio ${(ofServer / ofBare).toFixed(2)}; promised at most ${promised[form]}, fails above ${allowed[form]}\n`,
  );
  return ofServer / ofBare <= allowed[form];
}

/** So many requests, each of which has to bring the whole answer. */
async function round(way: Way, form: 'whole' | 'streamed'): Promise<void> {
  const { requests, atOnce } = counts[form];
  let left = requests;
  const one = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      if (form === 'whole') requireTool(await ask(way, 'Which weather has Oslo?', false));
      else requireText(await ask(way, 'stream', true), piece.repeat(pieces));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

/** All at once: none may be broken, counted by the number of the pieces and the hash of what they say. */
async function allAtOnce(what: string, way: Way): Promise<boolean> {
  const before = await way.process.resources();
  const answers = await Promise.all(
    Array.from({ length: together }, async (_, index) => {
      const text = `I am s${index}. `.repeat(40);
      const heard = streamOf(await ask(way, `many s${index}`, true));
      return heard.pieces === Math.ceil(text.length / 8) && heard.hash === hashOf(text) && heard.stopped;
    }),
  );
  const whole = answers.filter(Boolean).length;
  const used = ((await way.process.resources()).cpuMicroseconds - before.cpuMicroseconds) / 1000;
  write(`${together} streams at once, ${what}: ${whole} whole, counted by number and hash; `);
  write(`${(used / together).toFixed(2)} ms CPU a stream\n`);
  return whole === together;
}

function requireTool(text: string): void {
  const { content, stop_reason, usage } = JSON.parse(text);
  if (content[1]?.input.city !== 'Oslo' || stop_reason !== 'tool_use' || !(usage.output_tokens > 0))
    throw new Error(`An answer is not whole: ${text}`);
}

function requireText(text: string, expected: string): void {
  const heard = streamOf(text);
  if (heard.hash !== hashOf(expected) || heard.pieces !== pieces || !heard.stopped)
    throw new Error(`A stream is not whole: ${text.slice(-1000)}`);
}

function streamOf(text: string): {
  readonly pieces: number;
  readonly hash: string;
  readonly stopped: boolean;
} {
  const deltas = text.split('\n').flatMap((line) => {
    if (!line.startsWith('data: {"type":"content_block_delta"')) return [];
    return JSON.parse(line.slice('data: '.length)).delta.text as string; // of the vendor's own form
  });
  const stopped = /"output_tokens":[1-9]/.test(text) && text.includes('event: message_stop\n');
  return { pieces: deltas.length, hash: hashOf(deltas.join('')), stopped };
}

/** The answer to its end, read as cheaply as can be: the machine is shared with what is measured. */
function ask({ process: { url }, path, model, key }: Way, prompt: string, stream: boolean): Promise<string> {
  const body = JSON.stringify({ ...asked, model, stream, messages: [{ role: 'user', content: prompt }] });
  const headers = {
    'x-api-key': key,
    'anthropic-version': '2023-06-01',
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { agent, method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (more: string) => {
        text += more;
      });
      response.on('error', reject).on('end', () => {
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`${path}: ${response.statusCode} ${text}`));
      });
    });
    sent.on('error', reject).end(body);
  });
}

function write(text: string): void {
  process.stdout.write(text);
}
