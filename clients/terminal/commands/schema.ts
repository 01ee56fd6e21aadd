/** `service schema`. */
import { readFileSync } from 'node:fs';

/** Prints the JSON Schema of service.json, byte for byte as it was written. */
export function printSchema(): void {
  const file = new URL('../../../server/contract/service.schema.json', import.meta.url);
  process.stdout.write(readFileSync(file));
}
