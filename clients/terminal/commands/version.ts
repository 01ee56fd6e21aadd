/** `service version`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Prints the version, and nothing else. */
export function printVersion(): void {
  process.stdout.write(`service ${version()}\n`);
}

/** The version of this installation. */
export function version(): string {
  const text = readFileSync(join(import.meta.dirname, '../package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version; // our own manifest, which has one
}
