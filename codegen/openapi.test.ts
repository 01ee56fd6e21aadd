/** Holds the HTTP contract to rules that no linter knows: shown by examples, closed where it must be, free of stray references. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  type Contract,
  type ContractResponse,
  type MediaType,
  operationsOf,
  type PlacedOperation,
  resolve,
  type Schema,
} from './contract.ts';

const bundle = join(import.meta.dirname, '../server/contract/openapi.json');
const contract = JSON.parse(await readFile(bundle, 'utf8')) as Contract; // generated from a linted contract
const operations = operationsOf(contract);

test('every operation has a summary, a description, and a word about who may call it', () => {
  expect(operations.length).toBeGreaterThan(30);
  const bare = operations.filter(
    ({ operation }) => !isSentence(textOf(operation, 'description')) || !textOf(operation, 'summary'),
  );
  expect(names(bare)).toEqual([]);
  expect(names(operations.filter(({ operation }) => !operation['x-access']?.allow))).toEqual([]);
});

test('every schema, parameter, header and response says in a sentence what it is', () => {
  const parts = describedParts();
  expect(parts.length).toBeGreaterThan(1000);
  // The tables of codes follow their sentence.
  const proseOf = (part: object) => textOf(part, 'description').replace(/\n\n\|.*$/s, '');
  expect(parts.filter(([, part]) => !isSentence(proseOf(part))).map(([at]) => at)).toEqual([]);
});

/** All of them, by where they stand. Where one is only referred to, it is described elsewhere. */
function describedParts(): [string, object][] {
  const { components, paths } = contract;
  const shared = ['schemas', 'parameters', 'headers', 'responses'].flatMap((kind) =>
    placed(kind, components[kind]),
  );
  const responses = operations.flatMap(({ operation }) => placed(operation.operationId, operation.responses));
  const all = [...responses, ...placed('responses', components.responses)];
  const written = [
    ...responses,
    ...all.flatMap(([at, response]) => placed(at, (response as ContractResponse).headers)), // a reference has none
    ...Object.entries(paths).flatMap(([path, { parameters }]) => placed(path, parameters)),
    ...operations.flatMap(({ operation }) => placed(operation.operationId, operation.parameters)),
  ];
  return [...shared, ...written.filter(([, part]) => !('$ref' in part))];
}

function placed(at: string, parts: object = {}): [string, object][] {
  return Object.entries(parts).map(([name, part]) => [`${at} ${name}`, part as object]); // each of them is an object
}

test('every change of what a workspace or an organization owns names the role that it needs', () => {
  const owned = new Set([
    ...['mcp_server', 'session', 'run', 'plan', 'agent', 'file', 'corpus', 'memory', 'job', 'organization'],
    'group',
    'skill',
  ]);
  // The first makes one that nobody owns yet; the others look, although they are asked with a body.
  const lookers = [
    ...['createOrganization', 'estimateQuery', 'previewSchedule', 'searchCorpora', 'searchCorpus'],
    ...['searchMemories', 'searchSessions'],
  ];
  const open = operations.filter(
    ({ method, operation }) =>
      method !== 'get' && owned.has(operation['x-access'].resource ?? '') && !operation['x-access'].role,
  );
  expect(names(open).sort()).toEqual(lookers);
});

test('every body has its limit, and only a body has one', () => {
  const wrong = operations.filter(
    ({ operation }) => (operation.requestBody === undefined) !== (operation['x-body-limit'] === undefined),
  );
  expect(names(wrong)).toEqual([]);
  const valued = operations.filter(
    ({ operation }) => operation['x-body-values'] ?? operation['x-body-names'],
  );
  expect(names(valued.filter(({ operation }) => operation.requestBody === undefined))).toEqual([]);
});

test('every POST that creates something or begins a run takes an Idempotency-Key', () => {
  const without = operations.filter(
    ({ method, operation }) => method === 'post' && !operation['x-idempotent'],
  );
  expect(names(without).sort()).toEqual(Object.keys(noKeyNeeded).sort());
  const half = operations.filter(
    ({ operation }) => takesKey(operation) !== (operation['x-idempotent'] !== undefined),
  );
  expect(names(half)).toEqual([]);
  const held = operations.filter(
    ({ operation }) =>
      operation['x-idempotent'] &&
      operation['x-idempotent'] !== 'file' &&
      operation.requestBody?.content['multipart/form-data'],
  );
  // With a key a form is read whole before anything begins, unless a file is made of it.
  expect(names(held.filter(({ operation }) => (operation['x-body-limit'] ?? 0) > 64 * 1024 * 1024))).toEqual(
    [],
  );
});

test('whatever takes an Idempotency-Key says how it answers to one that is in use, or was another request’s', () => {
  const keyed = operations.filter(({ operation }) => takesKey(operation));
  expect(keyed.length).toBeGreaterThan(30);
  // Of the shapes of the Messages API, none has a code.
  const [messages, ours] = [keyed.filter(speaksMessages), keyed.filter((place) => !speaksMessages(place))];
  expect(names(ours.filter((place) => !codesOf(place, '422').includes('idempotency_key_reused')))).toEqual(
    [],
  );
  const silent = [...messages, ...ours].filter(
    ({ operation }) => !operation.responses['409'] || !operation.responses['422'],
  );
  expect(names(silent)).toEqual([]);
});

function speaksMessages({ path }: PlacedOperation): boolean {
  return path.startsWith('/v1/');
}

/** Those of the examples of a failure. */
function codesOf(place: PlacedOperation, status: string): string[] {
  const failures = answersOf(place).filter(({ at }) => at === status);
  return failures.flatMap(({ media }) =>
    Object.values(media.examples ?? {}).map((example) => textOf(Object(example.value), 'code')),
  );
}

/** Why a POST takes no key. */
const noKeyNeeded: Readonly<Record<string, string>> = {
  registerUser: 'nobody is known yet by whom to keep it; the address is taken once',
  login: 'nobody is known yet; a login that nobody has heard of ends by itself',
  refreshToken: 'nobody is known yet; the token works once',
  startDeviceLogin: 'nobody is known yet; a code that nobody has heard of ends by itself',
  pollDeviceLogin: 'nobody is known yet; the tokens are given once',
  redeemLoginCode: 'nobody is known yet; the code works once',
  replyDeviceLogin: 'the first reply counts',
  countMessageTokens: 'it changes nothing',
  linkOidcLogin: 'an attempt that nobody goes on with ends by itself',
  completeUpload: 'does the same again',
  testStorage: 'does the same again, and leaves nothing',
  testEmbedder: 'looks only',
  webSearch: 'looks only',
  logout: 'does the same again',
  revokeUserLogins: 'does the same again',
  acceptInvitation: 'the token works once',
  startProviderOauth: 'an attempt that nobody goes on with ends by itself',
  completeProviderOauth: 'the code works once',
  interruptRun: 'does the same again',
  interruptSession: 'does the same again',
  revertSession: 'does the same again',
  trustWorkspace: 'does the same again',
  requestPasswordReset: 'nobody is known yet; the last mail counts',
  resetPassword: 'nobody is known yet; the link works once',
  changePassword: 'does the same again',
  confirmMfa: 'the code works once',
  replyPermission: 'the first answer stands',
  replyPrompt: 'the first answer stands',
  rejectPlan: 'the first answer stands',
  previewSchedule: 'it changes nothing',
  pauseJob: 'a job that is paused is not paused again',
  resumeJob: 'a job that is active is not resumed again',
  cancelJobRun: 'a run that has ended is not cancelled again',
  cancelIngestionJob: 'a job that has ended is not cancelled again',
  retryIngestionJob: 'a job that is queued is not retried again',
  reindexCorpus: 'does the same again',
  testProviderSetting: 'looks only',
  testMcpServer: 'looks only',
  startMcpOauth: 'an attempt that nobody goes on with ends by itself',
  reconnectMcpServer: 'does the same again',
  refreshProviderModels: 'whoever asks while it is at work waits for the same look',
  estimateQuery: 'looks only',
  searchCorpora: 'looks only',
  searchCorpus: 'looks only',
  searchSessions: 'looks only',
  searchMemories: 'looks only',
  importMemories: 'what is there already is not doubled',
  purgeMemories: 'does the same again',
  validateSkill: 'looks only',
  applySkillRepository: 'what was applied is proposed no more',
  syncSkillRepository: 'one that is at work goes on',
  enableSkill: 'does the same again',
  disableSkill: 'does the same again',
};

function takesKey({ parameters = [] }: PlacedOperation['operation']): boolean {
  return parameters.some((one) => resolve(contract, one).name === 'Idempotency-Key');
}

test('every request and every success is shown by an example', () => {
  const unseen = operations.flatMap((place) =>
    [...requestsOf(place), ...successesOf(place)]
      .filter(({ type, media }) => !hasExample(type, media))
      .map(({ at, type }) => `${place.operation.operationId} ${at} ${type}`),
  );
  expect(unseen).toEqual([]);
});

test('every object that /api/v1 answers with is closed, so that no member can leak unseen', () => {
  const open = new Set<string>();
  for (const place of operations.filter(({ path }) => path.startsWith('/api/v1/')))
    for (const { media, at } of answersOf(place))
      findOpen(media.schema, `${place.operation.operationId} ${at}`, open, new Set());
  // What a tool or a provider takes is its own matter: its input, the schema of it, and the options pass as they are.
  expect([...open].sort()).toEqual([
    '#/components/schemas/McpTool/properties/input_schema',
    '#/components/schemas/ModelOptions/properties/provider_options',
    '#/components/schemas/PermissionRequest/properties/params',
    '#/components/schemas/ProviderSetting/properties/extra_body',
    '#/components/schemas/ProviderSetting/properties/provider_options',
    '#/components/schemas/Tool/properties/input_schema',
    '#/components/schemas/ToolStarted/properties/input',
    '#/components/schemas/ToolUse/properties/input',
    '#/components/schemas/UpdatedInput',
  ]);
});

test('an open object would be found wherever it hides', () => {
  const schema: Schema = {
    oneOf: [{ type: 'array', items: { type: 'object', properties: { id: { type: 'string' } } } }],
  };
  const open = new Set<string>();
  findOpen(schema, 'hidden', open, new Set());
  expect([...open]).toEqual(['hidden/oneOf/0/items']);
});

test('no text that /api/v1 takes as JSON may hold NUL, which no database keeps', () => {
  const loose = new Set<string>();
  for (const place of operations.filter(({ path }) => path.startsWith('/api/v1/')))
    for (const { media, type } of requestsOf(place))
      if (type.includes('json'))
        findLooseTexts(media.schema, String(place.operation.operationId), loose, new Set());
  // What another server has exported is read as it stands there: its texts are those of answers.
  expect([...loose].filter((name) => !/\/(Text|Reasoning|ToolUse|ToolResult)\//.test(name)).sort()).toEqual(
    [],
  );
});

test('no extension of the contract holds a reference, which only some readers would follow', () => {
  expect(extensionsOf(contract).filter((value) => JSON.stringify(value).includes('"$ref"'))).toEqual([]);
  expect(extensionsOf(contract).length).toBeGreaterThan(30);
});

interface Content {
  readonly at: string;
  readonly type: string;
  readonly media: MediaType;
}

function requestsOf({ operation }: PlacedOperation): Content[] {
  return contentsOf('request', operation.requestBody?.content);
}

function successesOf(place: PlacedOperation): Content[] {
  return answersOf(place).filter(({ at }) => at.startsWith('2'));
}

function answersOf({ operation }: PlacedOperation): Content[] {
  return Object.entries(operation.responses).flatMap(([status, response]) =>
    contentsOf(status, resolve(contract, response).content),
  );
}

function contentsOf(at: string, content: Record<string, MediaType> = {}): Content[] {
  return Object.entries(content).map(([type, media]) => ({ at, type, media }));
}

function hasExample(type: string, media: MediaType): boolean {
  if (type === 'text/event-stream') return (media['x-example-events']?.length ?? 0) > 0;
  return 'example' in media || Object.keys(media.examples ?? {}).length > 0;
}

/** Collects the objects that would take any member, following references and every branch of the schema. */
function findOpen(written: Schema, at: string, open: Set<string>, seen: Set<Schema>): void {
  const schema = resolve(contract, written);
  if (seen.has(schema)) return;
  seen.add(schema);
  const name = typeof written.$ref === 'string' ? written.$ref : at;
  // A map says what its values are; `true` says nothing.
  const bounded = (schema.additionalProperties ?? schema.unevaluatedProperties ?? true) !== true;
  // One that is one of several, and has nothing of its own, is as closed as each of these.
  const closed = bounded || (schema.oneOf !== undefined && schema.properties === undefined);
  if (([schema.type].flat().includes('object') || schema.properties) && !closed) open.add(name);
  for (const [keyword, value] of Object.entries(schema))
    for (const [part, child] of partsOf(keyword, value)) findOpen(child, `${name}/${part}`, open, seen);
}

/** Collects the texts whose schema lets NUL pass. A format, and what the bytes of a file are, are judged elsewhere. */
function findLooseTexts(written: Schema, at: string, loose: Set<string>, seen: Set<Schema>): void {
  const schema = resolve(contract, written);
  if (seen.has(schema)) return;
  seen.add(schema);
  const name = typeof written.$ref === 'string' ? written.$ref : at;
  const { type, pattern = '' } = schema;
  const isBounded = ['enum', 'const', 'format', 'contentMediaType'].some((keyword) => keyword in schema);
  const takesNul = ['\0', 'a\0b', 'https://a\0', '/a\0'].some((text) =>
    new RegExp(String(pattern), 'u').test(text),
  );
  if ([type].flat().includes('string') && !isBounded && takesNul) loose.add(name);
  for (const [keyword, value] of Object.entries(schema))
    for (const [part, child] of partsOf(keyword, value))
      findLooseTexts(child, `${name}/${part}`, loose, seen);
}

const holdOne = 'items contentSchema contains not if then else additionalProperties'.split(' ');
const holdMany = 'properties patternProperties oneOf anyOf allOf prefixItems'.split(' ');

function partsOf(keyword: string, value: unknown): [string, Schema][] {
  if (value === null || typeof value !== 'object') return [];
  if (holdOne.includes(keyword)) return [[keyword, value as Schema]]; // these keywords hold a schema
  if (!holdMany.includes(keyword)) return [];
  return Object.entries(value).map(([key, child]) => [`${keyword}/${key}`, child as Schema]); // and these, several
}

/** The values of all extensions, at any depth; in a map of headers a name with `x-` is none. */
function extensionsOf(node: unknown, inHeaders = false): unknown[] {
  if (node === null || typeof node !== 'object') return [];
  return Object.entries(node).flatMap(([key, value]) =>
    key.startsWith('x-') && !inHeaders ? [value] : extensionsOf(value, key === 'headers'),
  );
}

function textOf(operation: object, member: string): string {
  return String((operation as Record<string, unknown>)[member] ?? ''); // prose that no generator reads
}

function isSentence(text: string): boolean {
  return /^[A-Z`].*\.$/s.test(text.trim());
}

function names(places: readonly PlacedOperation[]): string[] {
  return places.map(({ operation }) => operation.operationId);
}

test('every path that the reference names is there, and something below each base path of its families', () => {
  const paths = Object.keys(contract.paths);
  const named = Object.entries(namedByReference).filter(
    ([path, method]) => !operations.some((one) => one.path === path && one.method === method),
  );
  expect(named).toEqual([]);
  const bare = familiesOfReference.filter(
    (base) => !paths.some((path) => path === base || path.startsWith(`${base}/`)),
  );
  expect(bare).toEqual([]);
});

const namedByReference: Readonly<Record<string, string>> = {
  '/api/v1/auth/login': 'post',
  '/api/v1/auth/register': 'post',
  '/api/v1/query': 'post',
  '/api/v1/query/stream': 'post',
  '/v1/messages': 'post',
  '/health': 'get',
  '/metrics': 'get',
  '/api/v1/metrics': 'get',
};

const familiesOfReference = [
  ...['sessions', 'sessions/{session_id}', 'auth', 'users', 'groups', 'organizations', 'workspaces'],
  ...['settings/providers', 'settings/embedder', 'settings/storage', 'files', 'corpora', 'memories'],
  ...['plans', 'scheduler/jobs', 'skills', 'mcp', 'web/search', 'audit/logs', 'quotas'],
].map((family) => `/api/v1/${family}`);
