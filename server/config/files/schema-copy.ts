/** The schema as a file beside the settings, so that editors find it without a network. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readOnce } from './read-once.ts';
import { type Replacement, replaceFile } from './replace-file.ts';

const name = 'service.schema.json';
const schema = join(import.meta.dirname, '../../contract', name);

/** What `$schema` says of the copy beside a file. */
export const schemaBeside = `./${name}`;

/** What a settings file begins with that we make. */
export const newFileText = `{\n  "$schema": "${schemaBeside}"\n}\n`;

/** Writes the schema into the folder, unless it is there already. */
export async function writeSchema(folder: string, owner?: Replacement['owner']): Promise<void> {
  const { bytes, isCurrent } = await compare(folder);
  if (!isCurrent) await replaceFile(join(folder, name), bytes, { mode: 0o600, ...(owner && { owner }) });
}

/** Whether the folder, a real path, has the schema of this version. */
export async function hasSchema(folder: string): Promise<boolean> {
  return (await compare(folder)).isCurrent;
}

async function compare(folder: string): Promise<{ readonly bytes: Buffer; readonly isCurrent: boolean }> {
  // A repository may have a link there, to a device that never ends.
  const [bytes, present] = await Promise.all([readFile(schema), readOnce(join(folder, name), folder)]);
  return { bytes, isCurrent: Boolean(present && 'bytes' in present && bytes.equals(present.bytes)) };
}
