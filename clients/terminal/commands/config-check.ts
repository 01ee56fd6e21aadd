/** `service config check`: everything that is wrong with settings files, for people, editors and continuous integration. */
import { resolve } from 'node:path';
import type { Diagnostic } from '../../../server/config/config.ts';
import { exitCodes } from '../failures.ts';
import { counted, describeDiagnostic, paint, printJson, write } from '../output.ts';
import { currentPlaces, isThere, placesOfFiles } from '../places.ts';

/** What was found, in how many files. */
interface Findings {
  readonly files: number;
  readonly diagnostics: readonly Diagnostic[];
}

/** Checks the files, or those that count here. The exit code is 2 where one of them cannot be used. */
export async function checkConfig(
  files: readonly string[],
  { json }: { readonly json?: boolean },
): Promise<void> {
  const { files: count, diagnostics } = files.length > 0 ? await checkNamed(files) : await checkHere();
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
  if (json) printJson(diagnostics);
  else for (const diagnostic of diagnostics) write(describeDiagnostic(diagnostic), process.stdout);
  process.stderr.write(`${summary(count, errors, diagnostics.length - errors)}\n`);
  if (errors > 0) process.exitCode = exitCodes.usage;
}

async function checkNamed(files: readonly string[]): Promise<Findings> {
  const { checkFile } = await import('../../../server/config/config.ts');
  const found = await Promise.all(files.map((file) => checkFile(resolve(file))));
  return { files: files.length, diagnostics: found.flat() };
}

/** Here the files are seen together, each in the bounds of its project. */
async function checkHere(): Promise<Findings> {
  const { loadSettings, SettingsError } = await import('../../../server/config/config.ts');
  const places = await currentPlaces();
  try {
    const { layers, diagnostics } = await loadSettings(places);
    return { files: layers.length, diagnostics };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const there = await Promise.all(placesOfFiles(places).map(({ file }) => isThere(file)));
    return { files: there.filter(Boolean).length, diagnostics: error.diagnostics };
  }
}

function summary(files: number, errors: number, warnings: number): string {
  const looked = files === 0 ? 'There is no settings file here' : `Looked at ${counted(files, 'file')}`;
  if (errors + warnings === 0)
    return files === 0 ? `${looked}.` : `${looked}: ${paint('green', 'nothing is wrong', process.stderr)}.`;
  const found = [
    ...(errors > 0 ? [paint('red', counted(errors, 'error'), process.stderr)] : []),
    ...(warnings > 0 ? [paint('yellow', counted(warnings, 'warning'), process.stderr)] : []),
  ];
  return `${looked}: ${found.join(', ')}.`;
}
