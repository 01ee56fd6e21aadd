/** The documents for the mock and for client generators must be sound by themselves, and say what they promise. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Contract, operationsOf, resolve } from './contract.ts';
import { generateDerivedDocuments } from './derived-documents.ts';

const root = join(import.meta.dirname, '..');
const redocly = join(root, 'node_modules/@redocly/cli/bin/cli.js');
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-derived-'));
  await mkdir(join(folder, 'server/contract'), { recursive: true });
  const contract = await read(join(root, 'server/contract/openapi.json'));
  await generateDerivedDocuments(folder, contract);
});
afterAll(() => rm(folder, { recursive: true }));

test.each(['openapi.mock.json', 'openapi.sdk.json'])(
  '%s is valid under the same rules as the contract, its examples too',
  async (name) => {
    await expect(lint(join(folder, 'server/contract', name))).resolves.toContain(
      'Your API description is valid',
    );
  },
);

test('the rules would find a broken derived document', async () => {
  const document = await read(join(folder, 'server/contract/openapi.sdk.json'));
  const [first] = operationsOf(document);
  if (first) first.operation.responses['200'] = { $ref: '#/components/responses/Missing' };
  const file = join(folder, 'broken.json');
  await writeFile(file, JSON.stringify(document));
  await expect(lint(file)).rejects.toThrow(/Validation failed with 1 error/);
});

test.each(['openapi.mock.json', 'openapi.sdk.json'])('%s knows a stream as text', async (name) => {
  const document = await read(join(folder, 'server/contract', name));
  const streams = operationsOf(document).flatMap(({ operation }) =>
    Object.values(operation.responses).flatMap(
      (response) => resolve(document, response).content?.['text/event-stream'] ?? [],
    ),
  );
  expect(streams.map(({ schema }) => schema)).toEqual(streams.map(() => ({ type: 'string' })));
  expect(streams.length).toBeGreaterThan(2);
});

test('the mock knows the JSON in a part of a form as text, and generators as what it is', async () => {
  const [mock, sdk] = await Promise.all(
    ['openapi.mock.json', 'openapi.sdk.json'].map((name) => read(join(folder, 'server/contract', name))),
  );
  const partOf = (document: Contract | undefined) => {
    const form = document?.paths['/api/v1/files']?.post?.requestBody?.content['multipart/form-data'];
    const { metadata } = (document && form && resolve(document, form.schema).properties) ?? {};
    return [metadata?.type, form?.examples?.hello?.value];
  };
  expect(partOf(mock)).toEqual(['string', expect.objectContaining({ metadata: '{"ticket":"A-1"}' })]);
  expect(partOf(sdk)).toEqual([undefined, expect.objectContaining({ metadata: { ticket: 'A-1' } })]);
});

test('the document for generators holds no choice between a string and a list', async () => {
  const document = await read(join(folder, 'server/contract/openapi.sdk.json'));
  const choices = Object.values(document.components.schemas)
    .flatMap(({ properties }) => Object.values(properties ?? {}))
    .filter(
      ({ oneOf }) =>
        oneOf?.some(({ type }) => type === 'array') && oneOf.some(({ type }) => type === 'string'),
    );
  expect(choices).toEqual([]);
});

async function read(file: string): Promise<Contract> {
  return JSON.parse(await readFile(file, 'utf8')) as Contract; // generated from a linted contract
}

async function lint(file: string): Promise<string> {
  const args = [redocly, 'lint', file, '--config', join(root, 'codegen/redocly.yaml')];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1e8 });
  return stdout + stderr;
}
