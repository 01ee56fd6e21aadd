/**
 * A small language server for the tests, started as a process: it finds an error wherever a line says "wrong", notes all
 * that it is told in a file, and behaves as badly as its first argument asks for.
 */
import { spawn } from 'node:child_process';
import { appendFileSync, closeSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

const [mode = 'good', notes = ''] = process.argv.slice(2);

/** Whether it is one that answers what is wrong with a document when it is asked. */
const isAsked = mode.startsWith('asked');
const documents = new Map<string, string>();
/** Whether it finds what is wrong only in the moment in which it is asked for references: a test chooses it. */
const isLate = mode.endsWith('found late');
/** What it asks after that, and the question that it answers then: an answer may be read before what was said earlier. */
const taken = 2;
let asked: number | undefined;
const pending: { readonly uri: string; readonly version: number; readonly content: string }[] = [];
let latest = { uri: '', asked: 0 };
/** Of which files it has published something. */
const publishedOf = new Set<string>();
/** A name that no file can have. */
const endless = 'long'.repeat(500_000);

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: {
    readonly textDocument?: { readonly uri: string; readonly version: number; readonly text?: string };
    readonly arguments?: readonly unknown[];
    readonly contentChanges?: readonly { readonly text: string }[];
  };
}

if (mode !== 'hang at exit') process.stdin.on('end', () => process.exit(0));
else process.on('SIGTERM', () => undefined);
note({ pid: process.pid, cwd: process.cwd(), environment: process.env, arguments: process.argv.slice(2) });
if (mode === 'child') {
  const child = spawn('sleep', ['3600'], { detached: true, stdio: 'ignore' });
  note({ child: child.pid });
}
if (mode === 'garbage') process.stdout.write('no message\n'.repeat(20_000));
if (mode === 'chatty') process.stdout.write('Starting up ...\n');
if (mode === 'crowded') {
  const diagnostics = Array.from({ length: 600_000 }, () => ({}));
  send({ method: 'textDocument/publishDiagnostics', params: { uri: 'file:///all.x', diagnostics } });
}
if (mode === 'huge') process.stdout.write('Content-Length: 99999999999\r\n\r\n');
if (mode === 'refuses') {
  console.error('this licence has run out');
  process.exit(3);
}

let buffer = Buffer.alloc(0);
process.stdin.on('data', (chunk: Buffer) => {
  buffer = Buffer.concat([buffer, chunk]);
  for (;;) {
    const [header, length] = /^Content-Length: (\d+)\r\n\r\n/.exec(buffer.toString('latin1', 0, 100)) ?? [];
    if (!header || buffer.length < header.length + Number(length)) return;
    const end = header.length + Number(length);
    const message: Message = JSON.parse(buffer.toString('utf8', header.length, end));
    buffer = buffer.subarray(end);
    note(message);
    answer(message);
  }
});

function answer({ id, method, params }: Message): void {
  const uri = params?.textDocument?.uri ?? '';
  if (mode === 'hang') return;
  if (method === 'initialize') send({ id, result: { capabilities } });
  else if (mode === 'deaf') return;
  else if (mode === 'closes its output' && method === 'textDocument/didOpen') closeOutput();
  else if (method === 'textDocument/didOpen' || method === 'textDocument/didChange') changed(params);
  else if (method === 'initialized') {
    if (mode === 'crash at start') crash();
    if (mode === 'closes its input') closeInput();
    if (mode === 'stops reading') process.stdin.pause();
    if (mode === 'takes back') takeBack();
    const items = [{ section: 'small.rules' }, {}];
    send({ id: 1, method: 'workspace/configuration', params: { items } });
  } else if (mode === 'hang at exit') return;
  else if (method === 'shutdown') send({ id, result: null });
  else if (method === 'exit') process.exit(0);
  else if (method === 'textDocument/diagnostic') diagnose(id, uri);
  else if (method === 'workspace/symbol') symbols(id);
  else if (method === 'workspace/executeCommand') send({ id, result: { body: broken(params) } });
  else if (isLate && method === 'textDocument/references') findPending(id);
  else if (isLate && id === taken && method === undefined) send({ id: asked, result: [] });
  else if (id !== undefined && method !== undefined) {
    const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 1 } };
    send({
      id,
      result: [
        { uri, range },
        { uri: 'file:///usr/lib/other.x', range },
        ...(mode === 'long'
          ? [`${uri}/`, 'file:///', 'zip:/'].map((start) => ({ uri: start + endless, range }))
          : []),
        // As much as the references in a large project.
        ...(mode === 'vast' ? Array.from({ length: 10_000 }, () => ({ uri, range })) : []),
      ],
    });
  }
}

function changed(params: Message['params']): void {
  const { uri = '', version = 0, text } = params?.textDocument ?? {};
  const content = text ?? params?.contentChanges?.[0]?.text ?? '';
  if (mode === 'crash') crash();
  if (mode === 'silent') return;
  latest = { uri, asked: 0 };
  // As one whose check starts with taking back all that it found in the last one.
  if (mode.includes('clearing')) for (const other of publishedOf) publish(other, undefined, '');
  if (isLate) {
    pending.push({ uri, version, content });
    return;
  }
  if (isAsked) {
    documents.set(uri, content);
    // As one that answers what it finds itself, and publishes what a slow compiler finds.
    setTimeout(() => publish(uri, version, content.replaceAll('wrong', '')), 300);
    return;
  }
  if (mode === 'tsserver') {
    const others = [...documents.keys()].filter((other) => other !== uri);
    documents.set(uri, content);
    // What it thought of the others before it was asked about them.
    setTimeout(() => others.map((other) => publish(other, undefined, 'wrong\n')), 100);
    return;
  }
  if (mode === 'flood') flood(uri, version);
  else if (mode === 'stale' && version > 1) publish(uri, version - 1, 'wrong\n');
  else if (mode === 'late') {
    // First what it still thought of the version before.
    publish(uri, version - 1, 'wrong\n');
    setTimeout(() => publish(uri, version, content), 200);
  } else if (mode === 'explore') publish(uri, version, explored());
  else if (mode === 'environment') publish(uri, version, environment());
  else publish(uri, mode === 'unversioned' ? undefined : version, content);
  if (mode === 'wordy')
    for (let number = 0; number < 30; number += 1)
      publish(`${uri}-${number}`, undefined, `${'word'.repeat(500_000)} is wrong`);
  if (mode === 'long') publish(`${uri}/${endless}`, undefined, content);
  if (mode === 'elsewhere') publish(uri.replace(/[^/]*$/, 'other.x'), undefined, content);
}

/** What is wrong in each text, or in the first of them, and in the files that it names: `other.x: wrong`. */
function findPending(id: number | undefined): void {
  for (const { uri, version, content } of pending.splice(0, mode.includes('one by one') ? 1 : Infinity)) {
    const named = mode.includes('unversioned') ? undefined : version;
    publish(uri, named, content.replaceAll(/^.*[.]x: .*$/gm, ''));
    for (const [, name = '', text = ''] of content.matchAll(/^(.*[.]x): (.*)$/gm))
      publish(uri.replace(/[^/]*$/, name), undefined, text.replaceAll(', ', '\n'));
  }
  asked = id;
  send({ id: taken, method: 'workspace/configuration', params: { items: [] } });
}

/** As one that asks for each file anew, and finds out that it need not. */
function takeBack(): void {
  for (let asked = 1000; asked < 1800; asked += 1) {
    send({ id: asked, method: 'workspace/configuration', params: { items: [{}] } });
    send({ method: '$/cancelRequest', params: { id: asked } });
  }
}

/** As a wrapper whose program has crashed. */
function closeOutput(): void {
  closeSync(1);
  setInterval(() => undefined, 1000);
}

/** As one that is about to end, and has not done so yet. */
function closeInput(): void {
  console.error('boom');
  closeSync(0);
  setInterval(() => undefined, 1000);
}

function crash(): never {
  console.error('boom');
  process.exit(1);
}

/** What it could do that it must not do, each as something wrong. */
function explored(): string {
  const attempts = {
    'read a secret': () => readFileSync('../outside/secret.txt'),
    'write into the workspace': () => writeFileSync('made.txt', ''),
    'see the home of a person': () => readdirSync('/root'),
  };
  const done = Object.entries(attempts).filter(([, attempt]) => {
    try {
      attempt();
      return true;
    } catch {
      // As it should be.
      return false;
    }
  });
  return ['odd, it could look around', ...done.map(([what]) => `wrong: ${what}`)].join('\n');
}

/** Each variable that it was given, as something odd; that of its own secret by its name alone. */
function environment(): string {
  return Object.entries(process.env)
    .map(([name, value]) => (name === 'API_TOKEN' ? `${name} is its own, odd` : `odd ${name}=${value}`))
    .join('\n');
}

/** When it is busy, it gives up the first question about each change, and every one about other documents. */
function diagnose(id: number | undefined, uri: string): void {
  const isFirst = uri === latest.uri && latest.asked === 0;
  if (uri === latest.uri) latest = { uri, asked: latest.asked + 1 };
  if (mode.includes('of the latest') && uri !== latest.uri) return;
  if (mode === 'asked while busy' && (isFirst || uri !== latest.uri))
    send({ id, error: { code: -32802, message: 'content changed' } });
  else {
    const content = (documents.get(uri) ?? '').replaceAll('odd', '');
    const items = found(isBroken() ? `${content}all is wrong` : content);
    send({ id, result: { kind: 'full', items } });
  }
}

function isBroken(): boolean {
  return [...documents.values()].some((content) => content.includes('breaks all'));
}

/** As tsserver answers: one error in each document while any of them breaks all. */
function broken(params: Message['params']): readonly object[] {
  const [kind] = params?.arguments ?? [];
  if (kind !== 'semanticDiagnosticsSync' || !isBroken()) return [];
  return [{ start: { line: 1, offset: 1 }, category: 'error', text: 'broken' }];
}

function symbols(id: number | undefined): void {
  const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 1 } };
  const three = { name: 'three', kind: 14, location: { uri: 'file:///usr/lib/three.x', range } };
  if (mode === 'symbols refused') send({ id, error: { code: -32603, message: 'no index' } });
  else send({ id, result: [three] });
}

function publish(uri: string, version: number | undefined, content: string): void {
  publishedOf.add(uri);
  send({
    method: 'textDocument/publishDiagnostics',
    params: { uri, version, diagnostics: found(content) },
  });
}

function found(content: string): readonly object[] {
  return content.split('\n').flatMap((line, number) =>
    ['wrong', 'odd'].flatMap((word, index) => {
      const character = line.indexOf(word);
      const range = { start: { line: number, character }, end: { line: number, character: character + 1 } };
      const message = `${line.trim()} is ${word}`;
      return character < 0 ? [] : [{ range, severity: index + 1, source: 'small', code: number, message }];
    }),
  );
}

/** As much as is taken, without end. */
function flood(uri: string, version: number): void {
  publish(uri, version, 'wrong\n'.repeat(5000));
  publish(`${uri}${Math.random()}`, version, 'wrong\n'.repeat(500));
  if (process.stdout.writableNeedDrain) process.stdout.once('drain', () => flood(uri, version));
  else setImmediate(() => flood(uri, version));
}

const capabilities = {
  textDocumentSync: { openClose: true, change: 1, save: { includeText: true } },
  referencesProvider: true,
  definitionProvider: true,
  ...(isAsked && { diagnosticProvider: {} }),
  ...(mode === 'tsserver' && { executeCommandProvider: { commands: ['typescript.tsserverRequest'] } }),
  ...(mode.startsWith('symbols') && { workspaceSymbolProvider: true }),
};

function send(message: object): void {
  const text = JSON.stringify({ jsonrpc: '2.0', ...message });
  process.stdout.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

function note(what: object): void {
  if (notes) appendFileSync(notes, `${JSON.stringify(what)}\n`);
}
