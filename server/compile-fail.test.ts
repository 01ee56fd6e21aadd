/** Runs the compiler on what must not compile, and on the same lines without their permission to fail. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';

const run = promisify(execFile);
const compiler = join(
  dirname(createRequire(import.meta.url).resolve('@typescript/native/package.json')),
  'bin/tsc',
);
const source = await readFile(join(import.meta.dirname, 'handlers.compile-fail.ts'), 'utf8');
const expectation = /^\/\/ @ts-expect-error .*$/gm;

/** The compiler takes a second processor too; where another has both, it takes its time. */
const timeout = 240_000;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-compile-fail-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** The errors of the compiler, as `line code`. */
async function errorsIn(text: string): Promise<string[]> {
  const file = join(folder, 'handlers.ts');
  await writeFile(file, text.replaceAll("from './", `from '${import.meta.dirname}/`));
  const config = {
    extends: join(import.meta.dirname, 'tsconfig.json'),
    compilerOptions: { typeRoots: [join(import.meta.dirname, '../node_modules/@types')] },
    include: [file],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  const options = { cwd: folder };
  const { stdout } = await run(process.execPath, [compiler, '-p', '.', '--pretty', 'false'], options).catch(
    (error: { stdout: string }) => error,
  );
  // What other files of the server lack at the moment is for the type check of the server to tell.
  return [...stdout.matchAll(/^handlers\.ts\((\d+),\d+\): error (TS\d+)/gm)].map(
    ([, line, code]) => `${line} ${code}`,
  );
}

test('every line that must not compile does not', { timeout }, async () => {
  expect(await errorsIn(source)).toEqual([]);
  const lines = source.split('\n');
  const forbidden = lines.flatMap((line, index) =>
    line.startsWith('// @ts-expect-error') ? [index + 2] : [],
  );
  expect(forbidden.length).toBe(13);
  const errors = await errorsIn(source.replace(expectation, '//'));
  expect(errors.map((error) => Number(error.split(' ')[0]))).toEqual(forbidden);
});

test('a line that compiles after all is found', { timeout }, async () => {
  const mended = source.replace("status: 'fine'", "status: 'ok'");
  expect(mended).not.toBe(source);
  expect(await errorsIn(mended)).toEqual([expect.stringContaining('TS2578')]);
});
