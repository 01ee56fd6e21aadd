/** Finds a file for each language server, so that a question about the whole project can start them. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isOfType } from './file-types.ts';
import type { ServerDefinition } from './server-choice.ts';

const mostFolders = 200;
const mostSamples = 8;
const passedOver = new Set(['node_modules', 'target', 'dist', 'build', 'vendor', '__pycache__', 'venv']);

/** The nearest file of each kind that some server reads. */
export async function sampleFiles(
  workspacePath: string,
  wanted: readonly ServerDefinition[],
): Promise<readonly string[]> {
  const served = new Set<string>();
  const samples: string[] = [];
  const queue = [workspacePath];
  for (let count = 0; count < Math.min(queue.length, mostFolders); count += 1) {
    const folder = queue[count] ?? workspacePath;
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []); // gone, or not for us to see
    for (const entry of entries) {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && !entry.name.startsWith('.') && !passedOver.has(entry.name)) queue.push(path);
      if (!entry.isFile()) continue;
      const fresh = wanted.filter(({ name, filetypes }) => !served.has(name) && isOfType(path, filetypes));
      if (fresh.length === 0) continue;
      for (const { name } of fresh) served.add(name);
      samples.push(path);
      if (samples.length >= mostSamples) return samples;
    }
  }
  return samples;
}
