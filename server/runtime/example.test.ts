/** The example of embedding, run as a program: what it does, and that it reads no settings file. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { startUpstream } from '../../contract-tests/upstream/start-upstream.ts';
import { findExecutable } from './processes/executable.ts';

const example = join(import.meta.dirname, 'example.ts');
const traced = test.skipIf(!findExecutable('strace'));

const write = { name: 'write', arguments: { file_path: 'hello.txt', content: 'Hello\n' } };
const remove = { name: 'bash', arguments: { command: 'rm hello.txt' } };

/** What the model does: what the example asks for, step by step. */
const obedient = [
  { when: { step: 0 }, reply: { text: 'I write it.', tool_calls: [write] } },
  { when: { step: 1 }, reply: { tool_calls: [remove] } },
  { reply: { text: 'It was refused: {{last_tool_result}}' } },
];

traced('the example runs through, and opens no settings file, wherever one lies', async () => {
  const home = await folderOfTraps();
  const { code, output, errors, opened } = await runExample(home, obedient);
  expect({ code, errors }).toEqual({ code: 0, errors: '' });
  expect(output).toContain('I allow it once.]');
  expect(output).toContain('It was refused: ');
  expect(output).toContain('No commands in this example.');
  expect(opened.length).toBeGreaterThan(100);
  expect(opened.filter((path) => path.endsWith('runtime/example.ts'))).not.toEqual([]);
  expect(opened.filter((path) => isSettings(path) || path.startsWith(home))).toEqual([]);
});

traced('the trace would show a settings file that is opened', async () => {
  const home = await folderOfTraps();
  const { opened } = await trace(home, ['-e', 'fs.readFileSync("service.json")'], {});
  expect(opened).toContain('service.json');
});

traced('the example fails where the runtime does not do what it should', async () => {
  const { code, errors } = await runExample(await folderOfTraps(), [
    { reply: { text: 'I would rather not.' } },
  ]);
  expect(code).toBe(1);
  expect(errors).toContain('Writing should have needed one permission');
});

test('the guide shows the code of the example, as it is checked and run', async () => {
  const guide = await readFile(join(import.meta.dirname, '../../docs/embedding.md'), 'utf8');
  const code = await readFile(example, 'utf8');
  const blocks = [...guide.matchAll(/^```ts\n((?:(?!```).*\n)*)```$/gm)].map(([, block = '']) => block);
  expect(blocks.length).toBeGreaterThan(2);
  expect(blocks.filter((block) => !code.includes(block))).toEqual([]);
});

function isSettings(path: string): boolean {
  // The sandbox tries itself out on a folder of its own, in which it has such files to protect.
  return /(^|\/)\.?(service|trust)\.json$/.test(path) && !path.includes('/service-sandbox-');
}

/** A working directory, home and settings folder in one, with every file that the command would read, each broken. */
async function folderOfTraps(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'traps-'));
  onTestFinished(() => rm(home, { recursive: true }));
  const folders = ['.', '.service', '.config/service', '.local/share/service'];
  for (const folder of folders) {
    await mkdir(join(home, folder), { recursive: true });
    for (const name of ['service.json', '.service.json', 'trust.json'])
      await writeFile(join(home, folder, name), '{ broken');
  }
  return home;
}

async function runExample(home: string, script: object[]) {
  const upstream = await startUpstream();
  await upstream.script(script);
  try {
    return await trace(home, [example], { PROVIDER_URL: `${upstream.url}/v1`, PROVIDER_MODEL: 'scripted-1' });
  } finally {
    await upstream.stop();
  }
}

/** Runs Node and everything it starts under strace, and says which files were named in any call. */
async function trace(home: string, args: readonly string[], variables: NodeJS.ProcessEnv) {
  const record = join(home, 'trace');
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    SERVICE_GLOBAL_CONFIG: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_DATA_HOME: join(home, '.local/share'),
    ...variables,
  };
  const tracer = [
    '--follow-forks',
    '--seccomp-bpf',
    '--trace=%file',
    '--string-limit=4096',
    '--output',
    record,
  ];
  const child = spawn('strace', [...tracer, process.execPath, ...args], { cwd: home, env });
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  const calls = await readFile(record, 'utf8');
  const opened = [
    ...calls.matchAll(
      /^\d+ +(?:open\w*|stat\w*|newfstatat|lstat|access|faccessat\w*|readlink\w*)\([^"\n]*"([^"]*)"/gm,
    ),
  ];
  return { code, output, errors, opened: opened.map(([, path = '']) => path) };
}
