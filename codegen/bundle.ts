/** Bundles the contract's many files into one document, which every other generator reads. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import type { Contract } from './contract.ts';
import { writeIfChanged } from './output.ts';

const run = promisify(execFile);

/** Writes server/contract/openapi.{json,yaml} and answers with the document. */
export async function bundleContract(root: string): Promise<Contract> {
  const folder = await mkdtemp(join(tmpdir(), 'service-bundle-'));
  try {
    const file = join(folder, 'openapi.json');
    await run(process.execPath, [
      redocly(),
      'bundle',
      join(root, 'openapi/openapi.yaml'),
      '--output',
      file,
      '--config',
      join(root, 'codegen/redocly.yaml'),
    ]);
    const contract = JSON.parse(await readFile(file, 'utf8')) as Contract; // the linter vouches for the shape
    await writeIfChanged(
      join(root, 'server/contract/openapi.json'),
      `${JSON.stringify(contract, null, 1)}\n`,
    );
    await writeIfChanged(
      join(root, 'server/contract/openapi.yaml'),
      `# Generated from openapi/. Do not edit.\n${stringify(contract, { aliasDuplicateObjects: false })}`,
    );
    return contract;
  } finally {
    await rm(folder, { recursive: true });
  }
}

function redocly(): string {
  const manifest = createRequire(import.meta.url).resolve('@redocly/cli/package.json');
  return join(dirname(manifest), 'bin/cli.js');
}
