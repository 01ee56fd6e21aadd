/** The command line itself: its help, its folder, its exit codes, and what it says of words that it does not know. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { nodesOf } from '../completion/tree.ts';
import { launcher, testHome } from '../test-command.ts';
import { buildProgram } from './program.ts';

test('without a subcommand it says that there is no interface yet, and offers run', async () => {
  const { code, stdout } = await testHome().service([]);
  expect(stdout).toContain('The terminal interface does not exist yet.');
  expect(stdout).toContain('service run "');
  expect(code).toBe(0);
});

test('help goes to standard output and ends well', async () => {
  const { service } = testHome();
  const [help, flag, short] = await Promise.all([service(['help']), service(['--help']), service(['-h'])]);
  expect(help).toEqual(flag);
  expect(short).toEqual(flag);
  expect(flag).toMatchObject({ code: 0, stderr: '' });
  expect(flag.stdout).toContain('Ask the agent something');
});

test('help of a command is what its --help prints, and of none an error', async () => {
  const { service } = testHome();
  expect(await service(['help', 'config', 'set'])).toEqual(await service(['config', 'set', '--help']));
  expect(await service(['help', 'serve'])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('--port'),
  });
  expect(await service(['help', 'run', 'nothing'])).toMatchObject({
    code: 2,
    stdout: '',
    stderr: 'service: There is no command "run nothing". service --help lists the commands.\n',
  });
});

test('every command has help with an example of its own', () => {
  const program = buildProgram();
  for (const { at } of nodesOf(program)) {
    const words = at.split(' ').filter(Boolean);
    let command = program;
    for (const word of words) command = command.commands.find((one) => one.name() === word) ?? command;
    let help = '';
    command.configureOutput({ writeOut: (written) => (help += written) });
    command.outputHelp();
    expect(help).toMatch(
      new RegExp(`Example:\\n {2}\\$ .*service( -\\S+)*${words.map((word) => ` ${word}`).join('')}`),
    );
    expect(command.description()).toMatch(/\.$/);
  }
});

test('the exit codes stand in the help of run', async () => {
  const { stdout } = await testHome().service(['run', '--help']);
  for (const line of ['0   the run completed', '3   with --require-trust', '130 interrupted'])
    expect(stdout).toContain(line);
});

test.for([
  [['rnu'], "unknown command 'rnu'", 'Did you mean run?', 'See: service --help'],
  [['config', 'shwo'], "unknown command 'shwo'", 'Did you mean show?', 'See: service config --help'],
  [['run', '--modle', 'x'], "unknown option '--modle'", 'Did you mean --model?', 'See: service run --help'],
  [['config', 'explain'], "missing required argument 'key'", 'See: service config explain --help'],
  [['config', 'path', 'x'], 'too many arguments', 'See: service config path --help'],
  [['completion', 'csh'], 'Allowed choices are bash, zsh, fish.', 'See: service completion --help'],
  [['trust', '--yes', '--list'], "option '-y, --yes' cannot be used with option '--list'"],
] as const)('wrong usage is said once, with what was probably meant: %s', async ([words, ...said]) => {
  const { code, stdout, stderr } = await testHome().service(words);
  for (const line of said) expect(stderr.split(line)).toHaveLength(2);
  expect(stdout).toBe('');
  expect(code).toBe(2);
});

test('a group of commands without one of them prints what there is, as an error', async () => {
  const { code, stdout, stderr } = await testHome().service(['config']);
  expect(stderr).toContain('explain');
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('-C makes another folder the current one, for settings and for what is written', async () => {
  const { home, service, write } = testHome();
  write('other/service.json', { options: { debug: true } });
  expect(JSON.parse((await service(['-C', '../other', 'config', 'show'])).stdout)).toEqual({
    options: { debug: true },
  });
  const { stdout } = await service(['--cwd', join(home, 'other'), 'config', 'set', 'options.debug', 'false']);
  expect(stdout).toContain(join(home, 'other/.service/service.json'));
});

test('a folder that cannot be entered is wrong usage', async () => {
  const { code, stderr } = await testHome().service(['-C', 'nowhere', 'config', 'show']);
  expect(stderr).toBe('service: The folder nowhere cannot be entered (ENOENT). Name one that is there.\n');
  expect(code).toBe(2);
});

test('a folder that is gone is said, and no stack is shown', async () => {
  const { home, environment } = testHome();
  const folder = join(home, 'gone');
  mkdirSync(folder);
  const child = spawn('sh', ['-c', 'read -r _; exec "$0" config show', launcher], {
    cwd: folder,
    env: environment,
  });
  rmSync(folder, { recursive: true });
  child.stdin.end('\n');
  const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
  expect(stderr).not.toMatch(/^ {4}at /m);
  expect(child.exitCode).toBe(2);
});

test('a reader that has read enough is no failure', async () => {
  const { environment, project } = testHome();
  const child = spawn(launcher, ['completion', 'bash'], { cwd: project, env: environment });
  child.stdout.destroy();
  const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
  expect({ code: child.exitCode, stderr }).toEqual({ code: 0, stderr: '' });
});

test('an answer is whole though nobody reads the notices', async () => {
  const { environment, project } = testHome();
  const child = spawn(launcher, ['models'], { cwd: project, env: environment });
  child.stderr.destroy();
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')]);
  expect({ code: child.exitCode, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^demo:demo-1\t.*\n$/),
  });
});

test('what scripts ask often is answered the same when it is asked another way', async () => {
  const { service, write } = testHome();
  write('project/service.json', { options: { debug: true }, hooks: { pre_tool_use: [{ command: 'x' }] } });
  for (const words of [['version'], ['config', 'show'], ['config', 'show', '--json']])
    expect(await service(words)).toEqual(await service(['-C', '.', ...words]));
});
