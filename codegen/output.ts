/** Writes generated files: each says where it comes from, and is left alone when nothing changed. */
import { readFile, writeFile } from 'node:fs/promises';

/** The first line of each generated file. */
export function header(source: 'openapi' | 'schemas'): string {
  return `// Generated from ${source}/. Do not edit.\n`;
}

/** Keeps the file's time when the text is the same, so that watchers and caches stay quiet. */
export async function writeIfChanged(file: string, text: string): Promise<void> {
  const present = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (present !== text) await writeFile(file, text);
}
