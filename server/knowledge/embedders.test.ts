/** The embedding model of this machine: a look at it that failed is not what counts from then on. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { modelFiles, modelFolder } from './embedded/pinned-model.ts';

/** In a process that may have few files open: it looks at the model with none left, and again with some. */
const program = `
  import { closeSync, openSync } from 'node:fs';
  import { createEmbedders } from ${JSON.stringify(join(import.meta.dirname, 'embedders.ts'))};
  const embedders = createEmbedders({
    modelsDirectory: process.env.MODELS,
    chosen: async () => ({ chosen: null, batchSize: 64 }),
  });
  const look = () => embedders.current().then(({ reason }) => reason, (error) => error.code);
  await import('node:stream/promises');
  const held = [];
  try {
    for (;;) held.push(openSync('/dev/null', 'r'));
  } catch {}
  const first = await look();
  for (const one of held) closeSync(one);
  process.stdout.write(JSON.stringify([first, await look()]));
`;

test.skipIf(process.platform === 'win32')(
  'is looked at again where it could not be read for a moment',
  async () => {
    const models = mkdtempSync(join(tmpdir(), 'service-models-'));
    onTestFinished(() => rmSync(models, { recursive: true }));
    const folder = modelFolder(models);
    mkdirSync(folder, { recursive: true });
    for (const name of Object.keys(modelFiles)) writeFileSync(join(folder, name), 'x');
    const { stdout } = await promisify(execFile)(
      'sh',
      ['-c', 'ulimit -n 80 && exec "$0" --input-type=module -e "$1"', process.execPath, program],
      { env: { ...process.env, MODELS: models } },
    );
    expect(JSON.parse(stdout)).toEqual([
      'EMFILE',
      expect.stringContaining('is not the file of this release'),
    ]);
  },
);
