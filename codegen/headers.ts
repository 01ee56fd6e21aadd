/** Writes the names of all headers of the contract: what a web page of another origin may send and read. */
import { join } from 'node:path';
import { type Contract, operationsOf, resolve } from './contract.ts';
import { header, writeIfChanged } from './output.ts';

/** Writes server/contract/headers.ts. */
export async function generateHeaders(root: string, contract: Contract): Promise<void> {
  const placed = operationsOf(contract);
  const sent = placed.flatMap(({ path, operation }) =>
    [...(contract.paths[path]?.parameters ?? []), ...(operation.parameters ?? [])]
      .map((parameter) => resolve(contract, parameter))
      .flatMap((parameter) => (parameter.in === 'header' ? [parameter.name] : [])),
  );
  const answered = placed.flatMap(({ operation }) =>
    Object.values(operation.responses).flatMap((response) =>
      Object.keys(resolve(contract, response).headers ?? {}),
    ),
  );
  const text = [
    header('openapi'),
    '/** Every header that some operation takes. */\n',
    `export const requestHeaders: readonly string[] = ${listOf(sent)};\n\n`,
    '/** Every header that some answer has. */\n',
    `export const responseHeaders: readonly string[] = ${listOf(answered)};\n`,
  ].join('');
  await writeIfChanged(join(root, 'server/contract/headers.ts'), text);
}

function listOf(names: readonly string[]): string {
  return JSON.stringify([...new Set(names)].sort(), null, 2);
}
