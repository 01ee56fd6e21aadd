/** The model that this release embeds with: where it lies, what its files must be, and whether they are. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** The number at the end counts what is done to the weights: other vectors, another number. */
export const embeddedIdentity = 'embedded:all-minilm-l6-v2:int8-per-channel:1';

export const embeddedModel = 'all-minilm-l6-v2';

export const embeddedDimensions = 384;

/** The files of the model, which are the same bytes whatever they were made from. */
export const modelFiles = {
  'model.onnx': 'b3e4962d268fe76a5ef476e2e1af5676d54fb99ac8799ee1a0fdc5b0e35975d6',
  'tokenizer.json': 'be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037',
} as const;

/** Its place among the models of this machine. */
export function modelFolder(modelsDirectory: string): string {
  return join(modelsDirectory, `${embeddedModel}-int8-1`);
}

export function openedFiles(folder: string): { readonly model: string; readonly tokenizer: string } {
  return { model: join(folder, 'model.onnx'), tokenizer: join(folder, 'tokenizer.json') };
}

/** What is wrong with the model in this folder; null where nothing is. */
export async function modelFault(folder: string): Promise<string | null> {
  for (const [name, expected] of Object.entries(modelFiles)) {
    const found = await sha256Of(join(folder, name));
    if (found === null) return `there is no ${name} in ${folder}`;
    if (found !== expected) return `${join(folder, name)} is not the file of this release (SHA-256 ${found})`;
  }
  return null;
}

/** The hash of a file; null where there is none. */
async function sha256Of(file: string): Promise<string | null> {
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(file), hash);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null; // streams of files reject with nothing else
    throw error;
  }
  return hash.digest('hex');
}

/** What tells that a file was changed, without reading it; null where there is none. */
export async function marksOf(folder: string): Promise<string | null> {
  const found = await Promise.all(
    Object.keys(modelFiles).map((name) => stat(join(folder, name)).catch(() => null)),
  );
  if (found.includes(null)) return null;
  return found.map((file) => `${file?.ino}:${file?.size}:${file?.mtimeMs}`).join(' ');
}
