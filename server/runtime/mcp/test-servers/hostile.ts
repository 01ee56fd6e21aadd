// An MCP server that does what no good one does: the first argument says what. Spoken by hand, as no library would.
import { spawn } from 'node:child_process';
import { appendFileSync, closeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [deed = '', file = ''] = process.argv.slice(2);
let listings = 0;
/** The call that waits for a form. */
let asking: number | string = 0;
let reporting: string | undefined;
let formsAnswered = 0;

interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly result?: unknown;
  readonly params?: { readonly name?: string; readonly _meta?: { readonly progressToken?: string } };
}

if (file.includes('/')) appendFileSync(file, `${process.pid}\n`);
if (deed === 'complains') process.stderr.write('the last words of a server\n');
if (deed === 'ends-at-once' || deed === 'complains') process.exit(3);
// A child of its own, which must not outlive it.
if (deed === 'has-children')
  spawn('sleep', [process.env.NAP ?? ''], { detached: true, stdio: 'ignore' }).unref();

createInterface({ input: process.stdin }).on('line', (line) => answer(JSON.parse(line) as Message)); // the client is ours
// Not even the end of its input makes it go.
if (deed === 'stays') {
  process.on('SIGTERM', () => undefined);
  setInterval(() => undefined, 1000);
}

function answer({ id, method, params, result }: Message): void {
  if (id === undefined || deed === 'hangs') return;
  if (deed === 'asks-without-end' && String(id).startsWith('form')) {
    formsAnswered += 1;
    if (formsAnswered === 80) report(reporting, 80, 100, 'the rest was withdrawn');
    if (formsAnswered === 100)
      send({ id: asking, result: { content: [{ type: 'text', text: 'all answered' }] } });
    return;
  }
  if (id === 'form') {
    send({ id: asking, result: { content: [{ type: 'text', text: JSON.stringify(result) }] } });
    return;
  }
  if (method === 'initialize') initialize(id);
  else if (method === 'tools/list') list(id);
  else if (method === 'prompts/list' && deed in promptLists) send({ id, result: promptLists[deed] });
  else if (method === 'tools/call') call(id, params?.name ?? '', params?._meta?.progressToken);
  else send({ id, error: { code: -32601, message: 'Method not found' } });
}

function initialize(id: number | string): void {
  const greetings: Readonly<Record<string, () => void>> = {
    'wrong-id': () => send({ id: 'another', result: {} }),
    refuses: () => send({ id, error: { code: -32603, message: 'Not\u001b[31m today' } }),
    'huge-line': () => void process.stdout.write('x'.repeat(20 * 1024 ** 2)),
    'crowded-line': () => welcome(Array.from({ length: 600_000 }, () => ({}))),
    floods: flood,
    late: () => void setTimeout(welcome, 2000),
  };
  if (deed === 'garbage')
    process.stdout.write(`${'no json at all\n'.repeat(1000)}{"json": "but no message"}\n`);
  const capabilities = {
    tools: { listChanged: true },
    ...((deed === 'sloppy' || deed in promptLists) && { prompts: {} }),
  };
  const serverInfo = { name: 'hostile', version: '0' };
  const welcome = (more?: object[]) =>
    send({ id, result: { protocolVersion: '2025-06-18', capabilities, serverInfo, more } });
  (greetings[deed] ?? welcome)();
}

function list(id: number | string): void {
  listings += 1;
  // Mute twice, once it has said that there is something to list.
  if (deed === 'mute-list' && (listings === 2 || listings === 3)) return;
  const names = (deed === 'changes' || deed === 'mute-list') && listings > 1 ? ['act', 'added'] : toolNames();
  const tools = names.map(toolOf);
  if (deed === 'null-of-tools') return void send({ id, result: { tools: null } });
  const result = deed === 'sloppy' ? { tools: [...tools, ...sloppyTools], nextCursor: null } : { tools };
  send({ id, result });
}

/** What some servers answer in the place of prompts, or of none. */
const promptLists: Readonly<Record<string, object>> = {
  'prompts-of-null': {
    prompts: [{ name: 'ask', title: null, description: null, arguments: null }, { title: 'nameless' }],
    nextCursor: null,
  },
  'null-of-prompts': { prompts: null },
  'prompts-of-words': { prompts: 'none' },
};

/** What some servers write: the first three can be understood. */
const sloppyTools = [
  { name: 'bare' },
  { name: 'untyped', description: null, inputSchema: {}, outputSchema: {}, annotations: 'none' },
  { name: 'null', title: 'Nothing', inputSchema: null },
  { name: 'a_list', inputSchema: { type: 'array' } },
  { name: 'no_properties', inputSchema: { type: 'object', properties: null } },
  { description: 'nameless' },
  'no tool at all',
];

function toolNames(): string[] {
  if (deed !== 'names') return ['act'];
  return ['a b', 'a_b', `long-${'x'.repeat(100)}`, `long-${'x'.repeat(101)}`, 'ümlaut', 'fine', 'of_another'];
}

function toolOf(name: string): object {
  const annotations = { readOnlyHint: true, destructiveHint: false };
  return { name, description: `Does ${name}.`, inputSchema: { type: 'object' }, annotations };
}

function call(id: number | string, name: string, progressToken: string | undefined): void {
  if (deed === 'crashes') process.exit(1);
  if (deed === 'closes-output') {
    closeSync(1);
    setInterval(() => undefined, 1000);
    return;
  }
  if (deed === 'asks') {
    asking = id;
    send({
      id: 'form',
      method: 'elicitation/create',
      params: { message: 'Well?', requestedSchema: form() },
    });
    return;
  }
  if (deed === 'asks-without-end') {
    [asking, reporting] = [id, progressToken];
    const requestedSchema = { type: 'object', properties: { sure: { type: 'boolean' } } };
    for (let at = 0; at < 100; at += 1)
      send({ id: `form${at}`, method: 'elicitation/create', params: { message: 'Sure?', requestedSchema } });
    return;
  }
  if (deed === 'withdraws' || deed === 'forgets') return void loseInterest(id);
  if (deed === 'silent') return;
  if (deed === 'slow') return void slow(id, progressToken);
  if (deed === 'chatters') chatter(progressToken);
  if (deed === 'changes' || deed === 'mute-list') send({ method: 'notifications/tools/list_changed' });
  const text = deed === 'talkative' ? 'x'.repeat(1_000_000) : `${name} is done`;
  if (deed === 'sloppy')
    return void send({
      id,
      result: {
        content: [
          { type: 'text', text },
          { type: 'video', data: 'AA==' },
        ],
      },
    });
  const environment = deed === 'tells-environment' ? JSON.stringify(process.env) : text;
  send({ id, result: { content: [{ type: 'text', text: environment }] } });
}

/** Asks, and wants no answer any more a moment later: it says so, and works on, or it simply has done the call by then. */
async function loseInterest(id: number | string): Promise<void> {
  const requestedSchema = { type: 'object', properties: { sure: { type: 'boolean' } } };
  send({ id: 'lost', method: 'elicitation/create', params: { message: 'Sure?', requestedSchema } });
  await new Promise((resolve) => setTimeout(resolve, 500));
  if (deed === 'withdraws') {
    send({ method: 'notifications/cancelled', params: { requestId: 'lost' } });
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  send({ id, result: { content: [{ type: 'text', text: 'done without an answer' }] } });
}

/** Longer than a call may be silent, but never silent for so long. Others come meanwhile, on a busy machine too. */
async function slow(id: number | string, progressToken: string | undefined): Promise<void> {
  const total = 20;
  for (let progress = 1; progress <= total; progress += 1) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    report(progressToken, progress, total, 'working');
  }
  send({ id, result: { content: [{ type: 'text', text: 'done in the end' }] } });
}

/** A report for each of many things, some of them with a book in it. */
function chatter(progressToken: string | undefined): void {
  for (let progress = 1; progress <= 20_000; progress += 1) {
    const message = progress % 4000 === 0 ? 'x'.repeat(1_000_000) : 'working';
    report(progressToken, progress, 20_000, message);
  }
}

function report(progressToken: string | undefined, progress: number, total: number, message: string): void {
  send({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
}

/** What no person should be asked, by the name of the form. */
function form(): object {
  const text = { type: 'string' };
  const fields = (count: number, of: object) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, of]));
  const values = Array.from({ length: 2000 }, (_, at) => `v${at}`);
  const forms: Readonly<Record<string, object>> = {
    names: Object.fromEntries([
      ['__proto__', text],
      ['constructor', { type: 'boolean' }],
      ['a\u0000b\ud800', { type: 'string', enum: ['\u0000', '\ud800x'] }],
    ]),
    one: fields(1, { type: 'boolean' }),
    many: fields(10_000, text),
    wide: fields(1, { type: 'string', enum: values }),
    long: fields(1, { type: 'string', description: 'x'.repeat(1_000_000) }),
    deep: fields(1, { type: 'string', default: nested(5000) }),
  };
  return { type: 'object', properties: forms[file] };
}

function nested(depth: number): object {
  let inner = {};
  for (let level = 0; level < depth; level += 1) inner = { inner };
  return inner;
}

function flood(): void {
  const line = `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x'.repeat(10_000) } })}\n`;
  const pour = () => {
    while (process.stdout.write(line));
    process.stdout.once('drain', pour);
  };
  pour();
}

function send(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}
