/** The schema as a file beside the settings, so that editors find it without a network. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readOnce } from './read-once.ts';
import { replaceFile } from './replace-file.ts';

const name = 'service.schema.json';
const schema = join(import.meta.dirname, '../../contract', name);

/** What a settings file begins with that we make. */
export const newFileText = `{\n  "$schema": "./${name}"\n}\n`;

/** Writes the schema into the folder, unless it is there already. */
export async function writeSchema(folder: string): Promise<void> {
  const file = join(folder, name);
  // A repository may have a link there, to a device that never ends.
  const [bytes, present] = await Promise.all([readFile(schema), readOnce(file, folder)]);
  const same = present && 'bytes' in present && bytes.equals(present.bytes);
  if (!same) await replaceFile(file, bytes, { mode: 0o600 });
}
