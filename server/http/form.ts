/** Reads a form: its fields first, then the one file, whose bytes go on to whoever stores them as they arrive. */
import { createHash } from 'node:crypto';
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy';
import type { Route } from '../contract/routes.ts';
import type { UploadedFile } from '../handler.ts';
import { Problem } from '../problem.ts';
import { countAnew, countFromEachPiece } from './arrival.ts';
import { CallerGone, type Excess } from './body.ts';
import { child, follow, operationOf } from './contract-document.ts';
import type { Exchange } from './exchange.ts';
import { readJson } from './json.ts';

/** The parts by name; a file is an `UploadedFile`. */
type Form = Readonly<Record<string, unknown>>;

/** A field is a word or some metadata; only the file is long. */
const limits = {
  fieldNameSize: 100,
  fieldSize: 65_536,
  fields: 20,
  files: 1,
  parts: 21,
  headerPairs: 20,
  headerSize: 8_192,
};

const files = new WeakSet<object>();

/** The form without the bytes of its file, as a validator sees it. */
export function withoutFiles(body: unknown): unknown {
  return isFile(body) ? '' : mapped(body, (value) => (isFile(value) ? '' : value));
}

/** What a validator has made of it, with the file again. */
export function withFiles(seen: unknown, body: unknown): unknown {
  if (isFile(body)) return body;
  if (!holdsFile(body)) return seen;
  const given = new Map(Object.entries(body));
  return mapped(seen, (value, name) => (isFile(given.get(name)) ? given.get(name) : value));
}

/** How long a file may arrive before it is asked again whether it may. */
const askAgainMs = 5000;

/**
 * The same body, whose file is asked about as it arrives, and at its end before anybody hears of that: whoever sends it
 * slowly is not to act with what has ended by then.
 */
export function withCheckedFiles(body: unknown, check: () => Promise<void>): unknown {
  const checked = (value: unknown): unknown => {
    if (!isFile(value)) return value;
    const file: UploadedFile = { ...value, content: checkedContent(value.content, check) };
    files.add(file);
    return file;
  };
  if (isFile(body)) return checked(body);
  return holdsFile(body) ? mapped(body, checked) : body;
}

async function* checkedContent(
  content: AsyncIterable<Uint8Array>,
  check: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  let askAt = performance.now() + askAgainMs;
  for await (const chunk of content) {
    if (performance.now() > askAt) {
      await check();
      askAt = performance.now() + askAgainMs;
    }
    yield chunk;
  }
  await check();
}

/** What a body says, of the file in it by what it can be told from another. */
export function saidWith(body: unknown, sha256: string): unknown {
  return mapped(body, (value) => (isFile(value) ? sha256 : value));
}

/** The same, where nobody else wants the bytes: they are read to the end, and kept nowhere. */
export async function saidBy(body: unknown): Promise<unknown> {
  const hash = createHash('sha256');
  const values: unknown[] = holdsFile(body) ? Object.values(body) : [];
  for (const file of values.filter(isFile)) for await (const chunk of file.content) hash.update(chunk);
  return saidWith(body, hash.digest('hex'));
}

/** A form with the bytes of its file at hand, and what it says: of the file, by what it can be told from another. */
export async function readWhole(body: unknown): Promise<{ readonly body: unknown; readonly said: unknown }> {
  if (!holdsFile(body)) return { body, said: body };
  const whole = new Map<string, unknown>();
  const said = new Map<string, unknown>();
  for (const [name, value] of Object.entries(body)) {
    const bytes = isFile(value) ? await bytesOf(value) : null;
    whole.set(name, bytes ? { mostBytes: bytes.length, content: [bytes] } : value);
    said.set(name, bytes ? createHash('sha256').update(bytes).digest('base64url') : value);
  }
  return { body: Object.fromEntries(whole), said: Object.fromEntries(said) };
}

async function bytesOf({ content }: UploadedFile): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(content));
}

/** A body that is a file itself, as it arrives. */
export function readFile({ request, response }: Exchange, limit: number, excess: Excess): UploadedFile {
  const { 'content-length': length, 'content-encoding': coding } = request.headers;
  if (length !== undefined && Number(length) > limit) throw excess(limit);
  refuseCoding(coding);
  // What an answer leaves unread must not hold up the next request of the connection.
  response.once('finish', () => request.resume());
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  const content = arriving(request, limit, excess);
  const file = { mostBytes: length === undefined ? null : Number(length), content };
  files.add(file);
  return file;
}

async function* arriving(
  request: Exchange['request'],
  limit: number,
  excess: Excess,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      countAnew(request);
      size += chunk.length;
      if (size > limit) throw excess(limit);
      yield chunk;
    }
  } catch (error) {
    throw request.complete || error instanceof Problem ? error : new CallerGone();
  }
}

/** Resolves as soon as the file begins, or at the end where there is none. */
export function readForm(
  { request, response }: Exchange,
  route: Route,
  { limit, excess }: { readonly limit: number; readonly excess: Excess },
): Promise<Form> {
  const { 'content-type': type = '', 'content-length': length } = request.headers;
  if (length !== undefined && Number(length) > limit) throw excess(limit);
  refuseCoding(request.headers['content-encoding']);
  const parser = parserOf(type, request.headers);
  const { promise, resolve, reject } = Promise.withResolvers<Form>();
  const ended = Promise.withResolvers<void>();
  // Whoever reads the file hears of it; where nobody does, it is nobody's loss.
  ended.promise.catch(() => undefined);
  const fields = new Map<string, unknown>();
  let stream: BusboyFileStream | undefined;
  const fail = (error: Error) => {
    request.unpipe(parser);
    reject(error);
    ended.reject(error);
    stream?.destroy(error);
  };
  parser.on('field', (name, value, nameCut, valueCut) => {
    if (stream) return fail(fileNotLast());
    if (nameCut || valueCut) return fail(brokenForm(`The field ${name.slice(0, 50)} is too long.`));
    if (fields.has(name)) return fail(brokenForm(`The field ${name} is there twice.`));
    try {
      fields.set(name, isJson(route, name) ? readJson(Buffer.from(value), route) : value);
    } catch (error) {
      fail(error instanceof Error ? error : new Error(String(error)));
    }
  });
  parser.on('file', (name, content, filename) => {
    // An error of a file that nobody reads any more has been told already.
    content.on('error', () => undefined);
    if (stream) return fail(fileNotLast());
    stream = content;
    if (filename && !fields.has('filename') && isNamed(route)) fields.set('filename', filename);
    const mostBytes = length === undefined ? null : Number(length);
    const file: UploadedFile = { mostBytes, content: contentOf(content, ended.promise) };
    files.add(file);
    resolve(Object.fromEntries([...fields, [name, file]]));
  });
  parser.once('finish', () => {
    ended.resolve();
    resolve(Object.fromEntries(fields));
  });
  for (const event of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const)
    parser.once(event, () => fail(stream ? fileNotLast() : brokenForm('The form has too many parts.')));
  parser.on('error', (error) => fail(brokenForm('The form is broken off, or no form.', error)));
  request.once('close', () => {
    if (!request.complete) fail(new CallerGone());
  });
  // What an answer leaves unread must not hold up the next request of the connection.
  response.once('finish', () => {
    request.unpipe(parser);
    request.resume();
  });
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  countFromEachPiece(request);
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > limit) fail(excess(limit));
  });
  request.pipe(parser);
  return promise;
}

function parserOf(type: string, headers: object): BusboyInstance {
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': type },
      limits,
      isPartAFile: (name, _type, filename) => filename !== undefined || name === 'file',
    });
  } catch (error) {
    throw brokenForm('The Content-Type names no boundary.', error);
  }
}

async function* contentOf(stream: BusboyFileStream, ended: Promise<void>): AsyncGenerator<Uint8Array> {
  yield* stream;
  await ended;
}

function refuseCoding(coding = 'identity'): void {
  if (coding.trim() === '' || coding.trim().toLowerCase() === 'identity') return;
  throw new Problem('unsupported_media_type', 'Send a form without Content-Encoding.', {
    headers: { 'Accept-Encoding': 'identity' },
  });
}

function formOf(route: Route) {
  const content = child(child(operationOf(route), 'requestBody'), 'content');
  return child(content, 'multipart/form-data');
}

/** Whether the contract wants a name for the file. */
function isNamed(route: Route): boolean {
  const schema = follow(child(formOf(route), 'schema'));
  return child(schema, 'properties').filename !== undefined;
}

function isJson(route: Route, name: string): boolean {
  return child(child(formOf(route), 'encoding'), name).contentType === 'application/json';
}

function holdsFile(body: unknown): body is object {
  return typeof body === 'object' && body !== null && Object.values(body).some(isFile);
}

function isFile(value: unknown): value is UploadedFile {
  return typeof value === 'object' && value !== null && files.has(value);
}

function mapped(body: unknown, change: (value: unknown, name: string) => unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, change(value, name)]));
}

function fileNotLast(): Problem {
  return brokenForm('Send one file, and send it last: nothing may come after the part that holds it.');
}

function brokenForm(message: string, cause?: unknown): Problem {
  return new Problem('invalid_request', message, {
    errors: [{ in: 'body', pointer: '', message, code: 'form' }],
    ...(cause !== undefined && { cause }),
  });
}
